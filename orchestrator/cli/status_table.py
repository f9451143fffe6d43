"""Print the nodes of a cluster with their health, and what is missing of it."""

from collections.abc import Mapping

from orchestrator import progress
from orchestrator.cli import output
from orchestrator.cluster import Cluster
from orchestrator.node_health import Health


def nodes(cluster: Cluster, health: Health) -> None:
    """Print every node with its health problems."""
    slots = {name: node.slots if name in cluster.rank_nodes else 0 for name, node in cluster.nodes.items()}
    output.table(
        ("node", "role", "address", "slots", "cpus", "gpus", "health"),
        [
            (n, node.role, node.address, slots[n], f"{node.cpus:g}", node.gpus, health.failed.get(n, "ok"))
            for n, node in cluster.nodes.items()
        ],
    )


def missing(reasons: Mapping[str, str]) -> None:
    """Print the nodes that were asked for but are missing, with reasons."""
    for name, why in reasons.items():
        output.line(f"missing: {name}: {why}")


def note_nodes_without_ranks(cluster: Cluster) -> None:
    """Name the nodes that run no ranks because only other nodes have GPUs."""
    if others := ", ".join(name for name in cluster.nodes if name not in cluster.rank_nodes):
        note = f"{others}: no ranks, because only the other nodes have GPUs"
        progress.note(f"{note}; gpu.driver: none in cluster.yaml makes ranks use the CPUs of all nodes")
