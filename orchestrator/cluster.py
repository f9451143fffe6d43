"""The cluster as described by Terraform's output, and values derived from it. Pure: no input, no output, no clock."""

from collections.abc import Container
from itertools import accumulate
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from orchestrator.errors import ConfigError, ContractError
from orchestrator.schema import Address

SHARED = "/shared"
MIN_SHARED_FREE = 1 << 30  # bytes
PYTHON = "/opt/orchestrator/bin/python"


def node_names(cluster: str, count: int) -> list[str]:
    """Return the names of ``count`` nodes, head first."""
    return [f"{cluster}-head", *(f"{cluster}-worker-{number}" for number in range(count - 1))]


class Node(BaseModel):
    """One machine.

    ``id`` changes when the machine is replaced; ``port`` is that of its sshd; ``cpus`` may be a fraction; ``slots`` is
    the number of ranks that it can run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    role: Literal["head", "worker"]
    public_address: Address | None
    private_address: Address
    port: int = 22
    cpus: float
    gpus: int
    slots: int

    @property
    def address(self) -> str:
        """Address that this machine uses to reach the node."""
        return self.public_address or self.private_address


class Cluster(BaseModel):
    """A deployed cluster: the central type, from which inventory, hostfile and launch commands are derived.

    ``nodes`` maps names to nodes, head first. ``storage`` and ``trainer`` say whether nodes come with /shared and the
    trainer, or Ansible provides them. ``jump`` is the way to the nodes: USER@HOST:PORT, a machine of the user's own, or
    iap:PROJECT/ZONE.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    ssh_user: str
    storage: Literal["nfs", "mounted"] = "mounted"
    trainer: Literal["container", "installed"] = "installed"
    jump: str | None = None
    nodes: dict[str, Node]

    @model_validator(mode="after")
    def _one_head_first(self) -> "Cluster":
        roles = [node.role for node in self.nodes.values()]
        if roles.count("head") != 1:
            raise ValueError(f"a cluster has one head, this one has {roles.count('head')}")
        ordered = dict(sorted(self.nodes.items(), key=lambda item: _order(*item)))
        object.__setattr__(self, "nodes", ordered)
        return self

    @property
    def head(self) -> str:
        return next(iter(self.nodes))

    @property
    def on_gpus(self) -> bool:
        """Whether ranks compute on GPUs; then all of them do, see ``rank_nodes``."""
        return any(node.gpus for node in self.nodes.values())

    @property
    def rank_nodes(self) -> dict[str, Node]:
        """Nodes that run ranks: those with GPUs if there are any, since Horovod cannot mix GPUs and CPUs; else all."""
        return {name: node for name, node in self.nodes.items() if node.gpus} or self.nodes

    @property
    def slots(self) -> int:
        return sum(node.slots for node in self.rank_nodes.values())

    def behind(self, name: str) -> bool:
        """Return whether node ``name`` is reached through the head because only the head has a public address."""
        outside = self.nodes[self.head].public_address
        return name != self.head and bool(outside) and self.nodes[name].public_address is None

    def without(self, names: Container[str]) -> "Cluster":
        """Return this cluster without the named workers."""
        rest = {name: node for name, node in self.nodes.items() if name not in names}
        return self.model_copy(update={"nodes": rest})

    def with_one_slot(self) -> "Cluster":
        """Return this cluster with one slot on each node, for a run that works once per node."""
        nodes = {name: node.model_copy(update={"slots": 1}) for name, node in self.nodes.items()}
        return self.model_copy(update={"nodes": nodes})

    def named(self, address: str | None) -> str:
        """Return the name of the node with this private address or name, else the address itself."""
        return next((n for n, node in self.nodes.items() if address in (n, node.private_address)), str(address))


def _order(name: str, node: Node) -> tuple[bool, int, str]:
    number = name.rpartition("-")[2]
    return node.role != "head", int(number) if number.isdigit() else 0, name


def read(output: Any) -> Cluster:
    """Parse the cluster in Terraform's output.

    Raises:
        ContractError: The output does not have the agreed shape.
    """
    try:
        return Cluster.model_validate(output)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ContractError(f"Terraform's output `cluster` is not a cluster: {problems}") from error


def hosts(cluster: Cluster, np: int | None = None) -> list[str]:
    """Return the names of the nodes that ``np`` ranks need (default: all), head first: ranks fill them in this order.

    Raises:
        ConfigError: The cluster has fewer than ``np`` slots.
    """
    ranks = cluster.slots if np is None else np
    if not 1 <= ranks <= cluster.slots:
        raise ConfigError([f"launch.np: {ranks} ranks asked for, the cluster has 1 to {cluster.slots} slots"])
    before = accumulate((node.slots for node in cluster.rank_nodes.values()), initial=0)
    return [name for name, slots in zip(cluster.rank_nodes, before, strict=False) if slots < ranks]


def ranks_by_host(cluster: Cluster, np: int | None = None) -> dict[str, int]:
    """Return how many of ``np`` ranks (default: all) each host of :func:`hosts` has, by address, in the same order."""
    remaining, ranks = cluster.slots if np is None else np, dict[str, int]()
    for node in (cluster.nodes[name] for name in hosts(cluster, np)):
        ranks[node.private_address] = min(node.slots, remaining)
        remaining -= node.slots
    return ranks


def require_a_gpu_each(cluster: Cluster) -> None:
    """Check that no ranks would share a GPU, which NCCL refuses.

    Raises:
        ConfigError: A node has more slots than GPUs.
    """
    crowded = {name: node for name, node in cluster.nodes.items() if 0 < node.gpus < node.slots}
    if crowded:
        problems = [f"slots: {node.slots}: {name} has {node.gpus} GPUs" for name, node in crowded.items()]
        raise ConfigError(problems, "every rank needs a GPU of its own: deploy without slots, or with fewer")
