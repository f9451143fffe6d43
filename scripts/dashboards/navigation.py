"""Navigation between dashboards: their names, the links between them, and the variables they share."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from scripts.dashboards.units_and_queries import SOURCE

DASHBOARDS = {
    "orchestrator-cluster": "Cluster",
    "orchestrator-training": "Training run",
    "orchestrator-gpus": "GPUs",
    "orchestrator-network": "Network",
    "orchestrator-compare": "Compare runs",
}


def links(uid: str) -> list[build.DashboardLink]:
    """Return the links from one dashboard to all others; they carry time range and variables."""
    return [_link(other, title) for other, title in DASHBOARDS.items() if other != uid]


def _link(uid: str, title: str) -> build.DashboardLink:
    link = build.DashboardLink(title)
    link.type(dashboard.DashboardLinkType.LINK).url(f"/d/{uid}").icon("dashboard")
    link.keep_time(True).include_vars(True).target_blank(False).tooltip(f"Open {title}")
    return link


def _variable(name: str, label: str, query: str) -> build.QueryVariable:
    variable = build.QueryVariable(name)
    variable.label(label).datasource(SOURCE).query(query).definition(query)
    variable.allow_custom_value(False)  # a value from another dashboard that is unknown here falls back to the default
    variable.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    return variable


def _several(variable: build.QueryVariable) -> build.QueryVariable:
    everything = dashboard.VariableOption(selected=True, text=["All"], value=["$__all"])
    variable.multi(True).include_all(True).all_value(".+").current(everything)
    return variable


def cluster() -> build.QueryVariable:
    """Return the variable for the cluster; a Prometheus knows only one."""
    return _variable("cluster", "Cluster", 'label_values(up{job="node"}, cluster)')


def nodes() -> build.QueryVariable:
    """Return the variable for the nodes; default: all."""
    return _several(_variable("node", "Node", 'label_values(up{job="node", cluster="$cluster"}, node)'))


def run() -> build.QueryVariable:
    """Return the variable for the run; the latest is listed first and is the default."""
    began = 'max by (run) (last_over_time(orchestrator_training_start_time_seconds{cluster="$cluster"}[$__range]))'
    variable = _variable("run", "Run", f"query_result(sort_desc({began}))")
    variable.regex('/run="([^"]+)"/').sort(dashboard.VariableSort.DISABLED)
    return variable


def runs() -> build.QueryVariable:
    """Return the variable for several runs; default: all, the newest first."""
    return _several(run())
