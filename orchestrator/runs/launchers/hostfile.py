"""Horovod's hostfile: the hosts of a run's ranks, with their slots. Pure."""

from orchestrator.cluster import Cluster, hosts


def text(cluster: Cluster, np: int | None = None) -> str:
    """Return Horovod's hostfile for :func:`hosts`, without blank or comment lines: Horovod's parser crashes on them."""
    used = [cluster.nodes[name] for name in hosts(cluster, np)]
    return "".join(f"{node.private_address} slots={node.slots}\n" for node in used)
