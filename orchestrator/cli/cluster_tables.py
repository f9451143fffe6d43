"""Print what is known of a cluster: its nodes, the changes that a deploy would make, and what they cost."""

import math
from collections.abc import Mapping, Sequence

from orchestrator import progress
from orchestrator.cli import output
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.lifecycle import prices
from orchestrator.lifecycle.prices import Item
from orchestrator.node_health import Health
from orchestrator.terraform import Change


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


def plan(config: Config, changes: Sequence[Change]) -> None:
    """Print the changes that a deploy would make."""
    output.line(f"cluster {config.name}: {config.nodes} nodes with provider {config.provider}")
    if changes:
        output.table(("change", "what", "name"), [(c.action, c.kind, c.name) for c in changes])
    else:
        hosts = "; deploy configures the hosts of hosts.addresses" if config.provider == "hosts" else ""
        output.line(f"no resource would be created, changed or removed{hosts}")


def bill(items: Sequence[Item], currency: str) -> None:
    """Print the costs per hour, and name items without a price."""
    rows = [(i.count, i.name, _price(i.each, currency), _price(i.sum, currency)) for i in items]
    if rows:
        output.line()
        output.table(("count", "what", "per hour", "together"), rows)
        output.line(prices.total(items, currency))


def _price(value: float | None, currency: str) -> str:
    """Return a price with two decimals, and with more if it is so low that these have less than two digits."""
    if value is None:
        return "no price"
    decimals = 1 - math.floor(math.log10(value)) if 0 < value < 0.1 else 2
    return f"{value:.{decimals}f} {currency}"
