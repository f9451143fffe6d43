"""Whether this machine has room for so many local nodes: cores, memory, and what systemd takes of the kernel."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.config import LEAST_MEMORY, Config
from orchestrator.engine import Engine
from orchestrator.errors import PreflightError

MEMORY_SHARE = 0.9
KERNEL = Path("/proc/sys")


@dataclass(frozen=True)
class Limit:
    """What ``each`` node takes of a limit of the kernel, what is left to other programs, and a value that is ample."""

    each: int
    spare: int
    ample: int


INOTIFY = {
    "fs.inotify.max_user_instances": Limit(each=3, spare=20, ample=8192),  # of systemd, for cgroups, mounts, clock
    "fs.inotify.max_user_watches": Limit(each=30, spare=4000, ample=65536),
}


def require_room(docker: Engine, config: Config) -> None:
    """Raises PreflightError if the nodes ask for more cores or memory than this machine has."""
    cpus, memory, has = config.local.cpus, config.local.memory, docker.memory / 2**30
    if cpus and cpus > docker.cpus:
        raise PreflightError(f"local.cpus: {cpus:g} asked for, this machine has {docker.cpus}", "ask for less")
    if memory is None:
        _require_share(docker, config.nodes)
    elif config.nodes * memory > has:
        raise PreflightError(
            f"local.memory: {memory:g} GiB asked for on each of {config.nodes} nodes, this machine has {has:.1f}",
            "ask for less, or for fewer nodes",
        )


def _require_share(docker: Engine, nodes: int) -> None:
    share, has = MEMORY_SHARE * docker.memory / 2**30 / nodes, docker.memory / 2**30
    if share < LEAST_MEMORY:
        raise PreflightError(
            f"nodes: {nodes}: each would have {share:.2f} of this machine's {has:.1f} GiB, {LEAST_MEMORY} are needed",
            f"at most {int(MEMORY_SHARE * has / LEAST_MEMORY)} nodes fit",
        )


def require_inotify(nodes: int, others: int) -> None:
    """Raises PreflightError if the kernel's limits are too low for ``nodes`` beside ``others`` that run already.

    The last nodes' systemd would then start no sshd: "Too many open files".
    """
    seen = {name: int((KERNEL / name.replace(".", "/")).read_text()) for name in INOTIFY}
    low = [name for name, limit in INOTIFY.items() if seen[name] < limit.each * (nodes + others) + limit.spare]
    if low:
        fits = min((seen[name] - INOTIFY[name].spare) // INOTIFY[name].each for name in low) - others
        settings = " ".join(f"{name}={INOTIFY[name].ample}" for name in low)
        raise PreflightError(
            f"nodes: {nodes}: this kernel watches files for {max(0, fits)} more nodes at most: "
            + ", ".join(f"{name} is {seen[name]}" for name in low),
            f"`sudo sysctl -w {settings}` sets enough until the next boot; a file in /etc/sysctl.d keeps it",
        )
