"""*Network*: whether the interface used for training is the limit, and whether it loses packets."""

from grafana_foundation_sdk.models import dashboard

from scripts.dashboards import units_and_queries as v
from scripts.dashboards.cluster import GONE, IDLE, NETWORK, NODES, RECEIVED, SENT, UNKNOWN, busiest_link
from scripts.dashboards.common_parts import of_nodes
from scripts.dashboards.panels import Panel, lines, verdict
from scripts.dashboards.tables import Column, Rows, listing

INTERFACES = f"orchestrator_node_training_interface_info{{{NODES}}}"
AS_DEVICE = f'max by (node, device) (label_replace({INTERFACES}, "device", "$1", "interface", "(.+)"))'


def of_interface(series: str) -> str:
    """Restrict `series` of node_exporter to the training interfaces, by node and device."""
    return f"sum by (node, device) ({series}) * on (node, device) {AS_DEVICE}"


def _rate(metric: str) -> str:
    return of_interface(f"rate({metric}{{{NODES}}}[$__rate_interval])")


def _resent(of: str) -> str:
    return f"sum by (node) (rate(node_netstat_Tcp_{of}{{{NODES}}}[$__rate_interval]))"


DROPS = {
    "{{node}} received": _rate("node_network_receive_drop_total"),
    "{{node}} sent": _rate("node_network_transmit_drop_total"),
}
ERRORS = {
    "{{node}} received": _rate("node_network_receive_errs_total"),
    "{{node}} sent": _rate("node_network_transmit_errs_total"),
}
RETRANSMITS = f"{_resent('RetransSegs')} / {_resent('OutSegs')}"
SPEED = of_interface(f"(node_network_speed_bytes{{{NODES}}} > 0)") + " * 8"
REDUCED = f"sum by (rank, node) (rate(orchestrator_training_reduced_bytes_total{{{NODES}}}[$__rate_interval])) * 8"
COMMUNICATION = "run:orchestrator_training_communication:ratio"


def build() -> dashboard.Dashboard:
    """Build the dashboard."""
    says = "Whether the network is the limit, and whether it loses packets."
    sections = {
        "": _verdict(),
        "Traffic of the training interfaces": _traffic(),
        "Losses": _losses(),
        "Interfaces": [_interfaces()],
    }
    return of_nodes("orchestrator-network", says, sections)


def _worst(queries: dict[str, str]) -> str:
    both = " + ".join(f"({query})" for query in queries.values())
    return f"topk(1, {both})"


def _verdict() -> list[Panel]:
    worst = ("{{node}}", "worst")
    panels = [
        busiest_link("Utilisation"),
        verdict(
            "Communication",
            "Share of a training step spent exchanging gradients.",
            f"topk(1, {COMMUNICATION} >= 0)",
            v.SHARE,
            v.COMMUNICATION,
            IDLE,
            ("worst run", "of a step"),
        ),
        verdict(
            "Sent again",
            "TCP segments that had to be sent again, of all that were sent.",
            f"topk(1, {RETRANSMITS})",
            v.SHARE,
            v.RETRANSMITS,
            GONE,
            worst,
        ),
        verdict("Drops", "Packets dropped, in and out.", _worst(DROPS), v.PACKETS, v.FAULTS, GONE, worst),
        verdict("Errors", "Packets with errors, in and out.", _worst(ERRORS), v.PACKETS, v.FAULTS, GONE, worst),
        verdict(
            "Slowest link",
            "The speed that its network card reports; 10 Gbit/s on local nodes, whatever they can do.",
            f"bottomk(1, {SPEED})",
            v.BITS_PER_SECOND,
            v.LINK,
            UNKNOWN,
            ("{{node}} {{device}}", "slowest"),
        ),
    ]
    return [*panels]


def _traffic() -> list[Panel]:
    node, bits = "{{node}}", v.BITS_PER_SECOND
    spent = {"{{run}}": COMMUNICATION}
    return [
        lines("Received", "Into the training interface.", {node: RECEIVED}, bits, GONE),
        lines("Sent", "Out of the training interface.", {node: SENT}, bits, GONE),
        lines("Of the link", "The busier direction, of the link's speed.", {node: NETWORK}, v.SHARE, UNKNOWN,
              v.UTILISATION, width=8),
        lines("Communication", "Share of a training step.", spent, v.SHARE, IDLE, v.COMMUNICATION, width=8),
        lines("Gradients", "Given to allreduce by each rank.", {"rank {{rank}} on {{node}}": REDUCED}, bits, IDLE,
              width=8),
    ]  # fmt: skip


def _losses() -> list[Panel]:
    again = {"{{node}}": RETRANSMITS}
    return [
        lines("Sent again", "TCP segments, of all sent.", again, v.SHARE, GONE, v.RETRANSMITS, width=8),
        lines("Drops", "Packets dropped.", DROPS, v.PACKETS, GONE, v.FAULTS, width=8),
        lines("Errors", "Packets with errors.", ERRORS, v.PACKETS, GONE, v.FAULTS, width=8),
    ]


def _interfaces() -> Panel:
    def total(queries: dict[str, str]) -> str:
        return " + ".join(f"({query})" for query in queries.values())

    columns = [
        Column("Link", SPEED, v.BITS_PER_SECOND),
        Column("Largest packet", of_interface(f"node_network_mtu_bytes{{{NODES}}}"), v.BYTES),
        Column("Received", f"max by (node) ({RECEIVED})", v.BITS_PER_SECOND),
        Column("Sent", f"max by (node) ({SENT})", v.BITS_PER_SECOND),
        Column("Of the link", f"max by (node) ({NETWORK})", v.SHARE, v.UTILISATION),
        Column("Sent again", RETRANSMITS, v.SHARE, v.RETRANSMITS),
        Column("Drops", total(DROPS), v.PACKETS, v.FAULTS),
        Column("Errors", total(ERRORS), v.PACKETS, v.FAULTS),
    ]
    rows = Rows({"node": "Node", "device": "Interface"})
    return listing(
        "Training interfaces",
        "The configured one, else the one with a node's private address.",
        rows,
        columns,
        GONE,
    )
