"""Check that this machine has room for the local nodes: cores, memory, and the kernel's limits that systemd needs."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.config import LEAST_MEMORY, Config
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError

MEMORY_SHARE = 0.9
HEAD_MEMORY = 1.75  # GiB: Prometheus, Alertmanager, the launcher and a rank; a smaller share is topped up
KERNEL = Path("/proc/sys")


@dataclass(frozen=True)
class Limit:
    """Use of a kernel limit: by ``each`` node, ``spare`` for other programs, and an ``ample`` value to recommend."""

    each: int
    spare: int
    ample: int


INOTIFY = {
    "fs.inotify.max_user_instances": Limit(each=3, spare=20, ample=8192),  # systemd watches cgroups, mounts and clock
    "fs.inotify.max_user_watches": Limit(each=30, spare=4000, ample=65536),
}


def memory(docker: Engine, config: Config) -> tuple[int, int]:
    """Return the memory limits, in MiB, of a worker and of the head.

    A head whose share is below HEAD_MEMORY gets up to half of what the shares leave, unless local.memory is set.
    """
    has = docker.memory / 2**30
    share = config.local.memory or MEMORY_SHARE * has / config.nodes
    topped_up = min(HEAD_MEMORY, share + (1 - MEMORY_SHARE) / 2 * has)
    head = share if config.local.memory else max(share, topped_up)
    return int(share * 2**10), int(head * 2**10)


def require_room(docker: Engine, config: Config) -> None:
    """Raise PreflightError if the nodes ask for more cores or memory than this machine has."""
    cpus, node_memory, has = config.local.cpus, config.local.memory, docker.memory / 2**30
    if cpus and cpus > docker.cpus:
        raise PreflightError(f"local.cpus: {cpus:g} asked for, this machine has {docker.cpus}", "ask for less")
    if node_memory is None:
        _require_share(docker, config.nodes)
    elif config.nodes * node_memory > has:
        raise PreflightError(
            f"local.memory: {node_memory:g} GiB asked for on each of {config.nodes} nodes, this machine has {has:.1f}",
            "ask for less, or for fewer nodes",
        )


def _require_share(docker: Engine, nodes: int) -> None:
    share, has = MEMORY_SHARE * docker.memory / 2**30 / nodes, docker.memory / 2**30
    if share < LEAST_MEMORY:
        raise PreflightError(
            f"nodes: {nodes}: each would have {share:.2f} of this machine's {has:.1f} GiB, {LEAST_MEMORY} are needed",
            f"at most {int(MEMORY_SHARE * has / LEAST_MEMORY)} nodes fit",
        )


def require_inotify(nodes: int, running: int) -> None:
    """Raise PreflightError if the kernel's limits are too low for ``nodes`` in addition to ``running`` already running.

    With too low limits, systemd on the last nodes cannot start sshd: "Too many open files".
    """
    machine = {name: int((KERNEL / name.replace(".", "/")).read_text()) for name in INOTIFY}
    low = [name for name, limit in INOTIFY.items() if machine[name] < limit.each * (nodes + running) + limit.spare]
    if low:
        fits = min((machine[name] - INOTIFY[name].spare) // INOTIFY[name].each for name in low) - running
        settings = " ".join(f"{name}={INOTIFY[name].ample}" for name in low)
        raise PreflightError(
            f"nodes: {nodes}: this kernel watches files for {max(0, fits)} more nodes at most: "
            + ", ".join(f"{name} is {machine[name]}" for name in low),
            f"`sudo sysctl -w {settings}` sets enough until the next boot; a file in /etc/sysctl.d keeps it",
        )
