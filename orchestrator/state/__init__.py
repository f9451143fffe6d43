"""The state directory: one per cluster, with a lock, atomic writes and the logs of every tool."""

from orchestrator.state.directory import StateDir, cache, cluster_names, for_cluster, root
from orchestrator.state.private_files import load, replace, usable
from orchestrator.state.record import (
    VERSION,
    Record,
    deployed,
    deployed_clusters,
    forget,
    new_record,
    read,
    repair,
    write,
)

__all__ = [
    "VERSION",
    "Record",
    "StateDir",
    "cache",
    "cluster_names",
    "deployed",
    "deployed_clusters",
    "for_cluster",
    "forget",
    "load",
    "new_record",
    "read",
    "repair",
    "replace",
    "root",
    "usable",
    "write",
]
