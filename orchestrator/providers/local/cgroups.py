"""Control groups of local nodes: the part of the machine's hierarchy that systemd in a node may write.

Without CAP_SYS_ADMIN a container cannot make its control groups writable, and Docker mounts them read-only. Therefore
the nodes of a cluster get a control group of their own (``docker run --cgroup-parent``), which is mounted read-write at
the path it has on the machine; the rest of the hierarchy stays read-only.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.docker.engine import Engine

ROOT = "/sys/fs/cgroup"


class CgroupOptions(NamedTuple):
    """Values of ``docker run``'s options ``--cgroup-parent`` and ``--volume``."""

    parent: str
    volumes: list[str]


def remove(docker: Engine, cluster: str) -> None:
    """Remove the control group of ``cluster``, empty after a teardown, as far as this process may.

    The engine makes it in every hierarchy and never removes it, and its API has no request for that. Only root may:
    after a teardown by another user it stays until the machine reboots, and does no harm. Systemd removes its slices
    itself.
    """
    if docker.is_local and docker.cgroup_driver != "systemd":
        remove_empty(cluster, Path(ROOT))


def remove_empty(cluster: str, root: Path) -> None:
    """Remove the control group of ``cluster`` from every hierarchy below ``root`` in which it is empty."""
    for parent in [root / "orchestrator", *root.glob("*/orchestrator")]:
        with suppress(OSError):  # the kernel refuses if a process or another group is in it
            (parent / cluster).rmdir()
            parent.rmdir()


def options(docker: Engine, cluster: str) -> CgroupOptions:
    """Return the control group of ``cluster`` in the form that the engine's cgroup driver expects."""
    hierarchy = ROOT if docker.cgroup_version == 2 else f"{ROOT}/systemd"
    if docker.cgroup_driver == "systemd":  # a dash in a slice's name stands for a level of the hierarchy
        parent = f"orchestrator-{cluster.replace('-', '_')}.slice"
        path = f"{hierarchy}/orchestrator.slice/{parent}"
    else:
        parent = f"/orchestrator/{cluster}"
        path = f"{hierarchy}{parent}"
    return CgroupOptions(parent, [f"{hierarchy}:{hierarchy}:ro", f"{path}:{path}"])
