"""The state directory: one per cluster, with a lock, atomic writes and the logs of every tool."""

from orchestrator.state.directory import Home, cache, home, names, root
from orchestrator.state.private_files import load, replace, usable
from orchestrator.state.record import VERSION, Record, deployed, forget, new_record, read, repair, write

__all__ = [
    "VERSION",
    "Home",
    "Record",
    "cache",
    "deployed",
    "forget",
    "home",
    "load",
    "names",
    "new_record",
    "read",
    "repair",
    "replace",
    "root",
    "usable",
    "write",
]
