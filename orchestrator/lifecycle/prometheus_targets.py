"""Remove nodes from Prometheus' targets before a deploy removes the nodes, which then raise no alert NodeDown."""

from orchestrator.cluster import Cluster, node_names
from orchestrator.monitoring import connection
from orchestrator.progress import log_errors
from orchestrator.runs import control
from orchestrator.state import Record, StateDir

TARGETS = "/etc/orchestrator/prometheus/targets.json"  # of the role prometheus, which writes it again
# Prometheus reads the file once, as soon as it has its name: it must be complete and readable then.
KEEP_OTHERS = """
import json, os, sys
path, *leaving = sys.argv[1:]
if os.path.exists(path):
    with open(path) as file:
        kept = [target for target in json.load(file) if target["labels"]["node"] not in leaving]
    with open(path + ".part", "w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(json.dumps(kept, indent=1) + "\\n")
    os.replace(path + ".part", path)
"""


def remove_leaving_nodes(state_dir: StateDir, before: Record, record: Record) -> None:
    """Remove the targets of the nodes that a deploy removes. A head that does not answer is not an error.

    Args:
        state_dir: State directory of the cluster.
        before: The cluster as it was deployed.
        record: The cluster as the deploy makes it.
    """
    if before.cluster is None or not (before.configured and connection.is_enabled(before)):
        return
    names = _leaving(before.cluster, record)
    if not names:
        return
    warning = f"Prometheus may raise the alert NodeDown for {', '.join(names)}"
    with log_errors(warning), control.head_session(state_dir, before.cluster) as head:
        head.must("remove targets", ["sudo", "/usr/bin/python3", "-c", KEEP_OTHERS, TARGETS, *names])


def _leaving(cluster: Cluster, record: Record) -> list[str]:
    """Return the names of the nodes that ``record`` has no more: hosts are known by their ids, others by their names.

    A host may get the name of another one.
    """
    hosts = record.variables.get("hosts")
    if hosts:
        staying = {machine["id"] for machine in hosts["machines"]}
        return [name for name, node in cluster.nodes.items() if node.id not in staying]
    names = node_names(cluster.name, record.config["nodes"])
    return [name for name in cluster.nodes if name not in names]
