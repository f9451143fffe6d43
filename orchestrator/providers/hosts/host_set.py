"""Hosts as nodes of a cluster: what a deploy knows of each, and the cluster that they make."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from orchestrator.cluster import Cluster, Node
from orchestrator.providers.hosts.login import Login
from orchestrator.providers.hosts.survey_answers import ACCOUNT


class Machine(BaseModel):
    """Host as node ``name``. ``id`` is empty if the host was never seen; a host with a ``problem`` is left out."""

    model_config = ConfigDict(frozen=True)

    name: str
    role: Literal["head", "worker"]
    login: Login
    id: str = ""
    address: str = ""
    port: int = 22
    private_address: str = ""
    cpus: int = 0
    gpus: int = 0
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.login} ({self.name})"


class HostSet(BaseModel):
    """Hosts as a deploy knows them. ``leaving`` are former nodes; ``uid`` and ``gid`` are the numbers of ACCOUNT."""

    machines: list[Machine]
    leaving: list[Machine] = []
    storage: Literal["nfs", "mounted"]
    trainer: Literal["container", "installed"]
    uid: int | None = None
    gid: int | None = None

    @property
    def everyone(self) -> list[Machine]:
        """Return all machines, including former nodes."""
        return [*self.machines, *self.leaving]


def cluster_of(name: str, host_set: HostSet, machines: Sequence[Machine], slots: int | None = None) -> Cluster:
    """Describe the cluster of ``machines``. Each has a public address: none is reached through the head.

    Args:
        name: Name of the cluster.
        host_set: Hosts as the deploy knows them.
        machines: The nodes; one of them is the head.
        slots: Ranks per node; default: one per GPU, or one.

    Returns:
        The cluster.
    """
    nodes = {
        machine.name: Node(
            id=machine.id,
            role=machine.role,
            public_address=machine.address,
            private_address=machine.private_address,
            port=machine.port,
            cpus=machine.cpus,
            gpus=machine.gpus,
            slots=slots or max(machine.gpus, 1),
        )
        for machine in machines
    }
    jump = next((machine.login.jump for machine in machines if machine.login.jump), None)
    described: dict[str, Any] = {"storage": host_set.storage, "trainer": host_set.trainer, "jump": jump}
    return Cluster(name=name, ssh_user=ACCOUNT, nodes=nodes, **described)
