"""The control groups of local nodes: the part of the machine's hierarchy that systemd in a node may write.

Without CAP_SYS_ADMIN a container cannot make its control groups writable, and Docker mounts them read-only. So the
nodes of a cluster get a control group of their own (``docker run --cgroup-parent``), which is mounted read-write at the
path it has on the machine; the rest of the hierarchy stays read-only.
"""

from typing import NamedTuple

from orchestrator.engine import Engine

ROOT = "/sys/fs/cgroup"


class CgroupOptions(NamedTuple):
    """Values of ``docker run``'s options ``--cgroup-parent`` and ``--volume``."""

    parent: str
    volumes: list[str]


def options(docker: Engine, cluster: str) -> CgroupOptions:
    """Name the control group of ``cluster`` in the form that the engine's cgroup driver wants."""
    hierarchy = ROOT if docker.cgroup_version == 2 else f"{ROOT}/systemd"
    if docker.cgroup_driver == "systemd":  # a dash in a slice's name stands for a level of the hierarchy
        parent = f"orchestrator-{cluster.replace('-', '_')}.slice"
        path = f"{hierarchy}/orchestrator.slice/{parent}"
    else:
        parent = f"/orchestrator/{cluster}"
        path = f"{hierarchy}{parent}"
    return CgroupOptions(parent, [f"{hierarchy}:{hierarchy}:ro", f"{path}:{path}"])
