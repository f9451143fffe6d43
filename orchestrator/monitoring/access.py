"""The way to what listens on the head's loopback: Prometheus, Alertmanager, and Grafana where there is one."""

import contextlib
import math
import time
from collections.abc import Iterator

from orchestrator import process, ssh, tunnel
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, StateError, command
from orchestrator.monitoring.prometheus import Prometheus
from orchestrator.process import Beside
from orchestrator.state import Home, Record
from orchestrator.tunnel import Service

PROMETHEUS = Service("Prometheus", 9090, "/-/ready", "prometheus")
ALERTMANAGER = Service("Alertmanager", 9093, "/-/ready", "prometheus-alertmanager")
GRAFANA = Service("Grafana", 3000, "/api/health", "grafana-server")
GRAFANA_FACT, THERE = "/etc/orchestrator/grafana", "there"  # the file on the head says that, or why it is not
ANSWER_SECONDS = 120.0  # Prometheus reads what it last wrote first, Grafana makes its database


def watched(record: Record) -> bool:
    """Whether the cluster was deployed with monitoring; one that an older version deployed has none."""
    return bool((record.config.get("monitoring") or {}).get("enabled"))


def require(place: Home, record: Record) -> None:
    """Raises StateError where the cluster was deployed without monitoring."""
    if not watched(record):
        makes = command("deploy --monitoring", place.name)
        raise StateError(f"cluster {place.name!r} has no monitoring", f"{makes} starts it")


@contextlib.contextmanager
def asking(
    place: Home, record: Record, cluster: Cluster, answers: float = ANSWER_SECONDS, lasts: float = math.inf
) -> Iterator[tuple[Prometheus, Beside]]:
    """Prometheus through a tunnel, which must answer within ``answers`` seconds and is asked for ``lasts`` seconds.

    Raises StateError where there is no monitoring, CommandFailed, NodesFailed.
    """
    require(place, record)
    port = tunnel.free_port(None)
    asked = Prometheus(f"http://{tunnel.HERE}:{port}", cluster.name, time.monotonic() + lasts)
    with asked as prometheus, tunnel.opened(place, cluster, {PROMETHEUS: port}, answers) as wait:
        yield prometheus, wait


def grafana_lack(place: Home, record: Record, cluster: Cluster) -> str:
    """Why there is no Grafana on the head; nothing where there is.

    Raises CommandFailed where the head cannot be asked.
    """
    if record.config["monitoring"].get("grafana") == "off":
        return "monitoring.grafana is off"
    asks = f"cat {GRAFANA_FACT} 2>/dev/null || true"
    argv = ssh.client_command(place, cluster, cluster.head, [asks], ["-o", "BatchMode=yes"])
    try:
        said = " ".join(process.run("ask the head for Grafana", argv, seconds=ANSWER_SECONDS).split())
    except CommandFailed as error:
        error.hint = f"{command('status', cluster.name)} shows whether the head answers"
        raise
    return "" if said == THERE else said or "no deploy has put it there"
