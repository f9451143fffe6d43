"""Size of the cluster of a study: as it is deployed, else as it will be."""

from typing import NamedTuple

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.state import Record


class ClusterSize(NamedTuple):
    """Size of a cluster.

    Attributes:
        nodes: Number of nodes.
        slots: Ranks per node.
        idle_nodes: Nodes that run no rank, whatever their number: 1 if the head lacks the GPUs of the workers, else 0.
    """

    nodes: int
    slots: int
    idle_nodes: int


def read(config: Config) -> ClusterSize:
    """Return the size of the deployed cluster, or the size that it will have."""
    record = state.read(state.for_cluster(config.name))
    if not record or not record.cluster:
        return ClusterSize(config.nodes, config.slots or 1, 0)
    slots = min(node.slots for node in record.cluster.rank_nodes.values())
    return ClusterSize(len(record.cluster.nodes), slots, _idle_nodes(record, record.cluster))


def _idle_nodes(record: Record, cluster: Cluster) -> int:
    machines = record.applied.get(record.config["provider"], {})
    if "worker" in machines:  # also if only the head is deployed now
        return int(not machines["head"]["gpus"] and machines["worker"]["gpus"] > 0)
    return int(cluster.head not in cluster.rank_nodes)
