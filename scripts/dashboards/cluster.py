"""*Cluster*: which nodes are up, and which have no capacity left."""

from grafana_foundation_sdk.models import dashboard

from scripts.dashboards import units_and_queries as v
from scripts.dashboards.common_parts import of_nodes
from scripts.dashboards.panels import Panel, lines, tile, verdict
from scripts.dashboards.tables import Column, Rows, listing

NODES = 'node=~"$node"'
IDLE = "no training now"
GONE = "no node answers"
UNKNOWN = "link speed unknown"
UP = f'up{{job="node", {NODES}}}'
CPU, MEMORY = f"node:node_cpu:ratio{{{NODES}}}", f"node:node_memory:ratio{{{NODES}}}"
NETWORK = f"node:node_network_utilisation:ratio{{{NODES}}}"
RECEIVED = f"node:node_network_receive_bytes:rate30s{{{NODES}}} * 8"
SENT = f"node:node_network_transmit_bytes:rate30s{{{NODES}}} * 8"
# File systems on disks that can fill, each disk once however often it is mounted.
ON_DISK = f'{NODES}, fstype!~"tmpfs|ramfs|nfs.*|fuse.*"'
FULL = f"1 - node_filesystem_avail_bytes{{{ON_DISK}}} / node_filesystem_size_bytes{{{ON_DISK}}}"
FULL += f" unless node_filesystem_readonly{{{ON_DISK}}} == 1"
BUSY = f"max by (node) (rate(node_disk_io_time_seconds_total{{{NODES}}}[$__rate_interval]))"
CORES = f'count by (node) (node_cpu_seconds_total{{mode="idle", {NODES}}})'
LOAD = f"max by (node) (node_load1{{{NODES}}}) / {CORES}"
ALERT = {"alertname": "Alert", "severity": "Severity", "node": "Node", "run": "Run"}
CROWDED = v.Scale((2, 4), ("room", "queueing", "crowded"))
SLOW_DISK = v.Scale((0.7, 0.95), ("room", "busy", "full"))


def build() -> dashboard.Dashboard:
    """Build the dashboard."""
    says = "Nodes that are up, and nodes without free capacity."
    sections = {
        "": [*_machines(), *_training()],
        "Nodes": [_alive(), _nodes()],
        "Over time": _over_time(),
        "Alerts": [_alerts()],
    }
    return of_nodes("orchestrator-cluster", says, sections)


def _machines() -> list[Panel]:
    down = f"count({UP} == 0) or vector(0)"
    firing = f'count(count by ({", ".join(ALERT)}) (ALERTS{{alertstate="firing"}})) or vector(0)'
    busiest, fullest = ("{{node}}", "busiest"), ("{{node}}", "fullest")
    return [
        verdict("Nodes down", "Nodes whose exporter does not answer.", down, v.COUNT, v.DOWN, GONE),
        verdict("Alerts", "Alerts that fire now; they are listed below.", firing, v.COUNT, v.ALERTS, "quiet"),
        verdict("CPU", "The busiest node's CPU.", f"topk(1, {CPU})", v.SHARE, v.CPU, GONE, busiest),
        verdict("Memory", "The fullest node's memory.", f"topk(1, {MEMORY})", v.SHARE, v.MEMORY, GONE, fullest),
        verdict("Disk space", "The fullest disk.", f"topk(1, max by (node) ({FULL}))", v.SHARE, v.DISK, GONE, fullest),
        busiest_link("Network"),
    ]


def busiest_link(title: str) -> Panel:
    """Show whether the busiest link has capacity left."""
    says, node = "The busiest training interface, of its link's speed.", ("{{node}}", "busiest")
    return verdict(title, says, f"topk(1, {NETWORK})", v.SHARE, v.UTILISATION, UNKNOWN, node)


def _training() -> list[Panel]:
    def worst(series: str) -> str:
        return f"topk(1, {series} >= 0)"

    of_step = ("{{run}}", "of a step")
    panels = [
        verdict(
            "Input wait",
            "Share of a training step spent waiting for images: whether GPUs or CPUs starve.",
            worst("run:orchestrator_training_input:ratio"),
            v.SHARE,
            v.INPUT_WAIT,
            IDLE,
            of_step,
        ),
        verdict(
            "Communication",
            "Share of a training step spent exchanging gradients: whether the network is the limit.",
            worst("run:orchestrator_training_communication:ratio"),
            v.SHARE,
            v.COMMUNICATION,
            IDLE,
            of_step,
        ),
        verdict(
            "Slowest rank",
            "Own time per step of the slowest rank, against the median of its run: whether a node is slow.",
            worst("rank:orchestrator_training_straggler:ratio"),
            v.TIMES,
            v.STRAGGLER,
            IDLE,
            ("rank {{rank}} on {{node}}", "the median"),
        ),
    ]
    for panel in panels:
        panel.span(8)
    return [*panels]


def _alive() -> Panel:
    queries = {"{{node}}": f"min by (node) ({UP})"}
    panel = tile("Alive", "Nodes whose exporter answers.", queries, v.COUNT, GONE, v.ALIVE, worded=True)
    panel.span(24)
    return panel


def _nodes() -> Panel:
    columns = [
        Column("State", f"min by (node, role) ({UP})", v.COUNT, v.ALIVE, worded=True),
        Column("Load per core", LOAD, v.COUNT, CROWDED, decimals=2),
        Column("CPU", f"max by (node) ({CPU})", v.SHARE, v.CPU),
        Column("Memory", f"max by (node) ({MEMORY})", v.SHARE, v.MEMORY),
        Column("Fullest disk", f"max by (node) ({FULL})", v.SHARE, v.DISK),
        Column("Disk busy", BUSY, v.SHARE, SLOW_DISK),
        Column("Received", f"max by (node) ({RECEIVED})", v.BITS_PER_SECOND),
        Column("Sent", f"max by (node) ({SENT})", v.BITS_PER_SECOND),
        Column("Of the link", f"max by (node) ({NETWORK})", v.SHARE, v.UTILISATION),
    ]
    link = "/d/orchestrator-network?var-node=${__value.raw}&${__url_time_range}"
    rows = Rows({"node": "Node", "role": "Role"}, {"node": link})
    return listing("Nodes", "Each node as it is now.", rows, columns, GONE)


def _over_time() -> list[Panel]:
    both = {"{{node}} in": RECEIVED, "{{node}} out": SENT}
    disks = {"{{node}} {{device}}": f"max by (node, device) ({FULL})"}
    return [
        lines("CPU", "Share of all cores in use.", {"{{node}}": CPU}, v.SHARE, GONE, v.CPU, width=8),
        lines(
            "Load per core", "Tasks that run or wait, per core.", {"{{node}}": LOAD}, v.COUNT, GONE, CROWDED, width=8
        ),
        lines("Memory", "Share of memory in use.", {"{{node}}": MEMORY}, v.SHARE, GONE, v.MEMORY, width=8),
        lines("Disk space", "Share of each disk in use.", disks, v.SHARE, GONE, v.DISK, width=8),
        lines("Disk busy", "Share of time in use.", {"{{node}}": BUSY}, v.SHARE, GONE, SLOW_DISK, width=8),
        lines("Network", "Traffic of the training interface.", both, v.BITS_PER_SECOND, GONE, width=8),
    ]


def _alerts() -> Panel:
    since = 'ALERTS_FOR_STATE and ignoring (alertstate) ALERTS{alertstate="firing"}'
    column = Column("Since", f"max by ({', '.join(ALERT)}) ({since}) * 1000", "dateTimeFromNow")
    return listing("Firing alerts", "docs/alerts.md says what to do.", Rows(ALERT), [column], "nothing fires")
