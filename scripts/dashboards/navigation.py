"""How dashboards hang together: their names, the links between them, and the variables they share."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from scripts.dashboards.vocabulary import SOURCE

DASHBOARDS = {
    "orchestrator-cluster": "Cluster",
    "orchestrator-training": "Training run",
    "orchestrator-gpus": "GPUs",
    "orchestrator-network": "Network",
    "orchestrator-compare": "Compare runs",
}


def links(uid: str) -> list[build.DashboardLink]:
    """From one dashboard to all others; range and variables go along."""
    return [_link(other, title) for other, title in DASHBOARDS.items() if other != uid]


def _link(uid: str, title: str) -> build.DashboardLink:
    link = build.DashboardLink(title)
    link.type(dashboard.DashboardLinkType.LINK).url(f"/d/{uid}").icon("dashboard")
    link.keep_time(True).include_vars(True).target_blank(False).tooltip(f"Open {title}")
    return link


def _variable(name: str, label: str, query: str) -> build.QueryVariable:
    variable = build.QueryVariable(name)
    variable.label(label).datasource(SOURCE).query(query).definition(query)
    variable.allow_custom_value(False)  # of another dashboard's choice, what is unknown here falls back
    variable.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    return variable


def _several(variable: build.QueryVariable) -> build.QueryVariable:
    everything = dashboard.VariableOption(selected=True, text=["All"], value=["$__all"])
    variable.multi(True).include_all(True).all_value(".+").current(everything)
    return variable


def cluster() -> build.QueryVariable:
    """Which cluster; one Prometheus knows one."""
    return _variable("cluster", "Cluster", 'label_values(up{job="node"}, cluster)')


def nodes() -> build.QueryVariable:
    """Which nodes; all of them."""
    return _several(_variable("node", "Node", 'label_values(up{job="node", cluster="$cluster"}, node)'))


def run() -> build.QueryVariable:
    """Which run; the one that began last stands first and is chosen."""
    began = 'max by (run) (last_over_time(orchestrator_training_start_time_seconds{cluster="$cluster"}[$__range]))'
    variable = _variable("run", "Run", f"query_result(sort_desc({began}))")
    variable.regex('/run="([^"]+)"/').sort(dashboard.VariableSort.DISABLED)
    return variable


def runs() -> build.QueryVariable:
    """Which runs; all of them, the newest first."""
    return _several(run())
