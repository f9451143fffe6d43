"""Connections to services on the head's loopback: Prometheus, Alertmanager, and Grafana if it runs."""

import contextlib
import math
import time
from collections.abc import Iterator

from orchestrator import process, ssh
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, StateError, command
from orchestrator.launch_layout import RAY_TOKEN
from orchestrator.monitoring.prometheus import Prometheus
from orchestrator.process.background import Background
from orchestrator.runs import run_record
from orchestrator.runs.launchers.ray import DASHBOARD_PORT
from orchestrator.services import tunnel
from orchestrator.services.tunnel import Service
from orchestrator.state import Record, StateDir

PROMETHEUS = Service("Prometheus", 9090, "/-/ready", "prometheus")
ALERTMANAGER = Service("Alertmanager", 9093, "/-/ready", "prometheus-alertmanager")
GRAFANA = Service("Grafana", 3000, "/api/health", "grafana-server")
RAY = Service("Ray", DASHBOARD_PORT, "/", "'orchestrator-*'")  # while a run of Ray is active
GRAFANA_RECORD = "/etc/orchestrator/grafana"
INSTALLED = "there"  # content of that file if Grafana is installed; otherwise it is the reason why not
ANSWER_SECONDS = 120.0  # Prometheus replays its log, Grafana creates its database


def is_enabled(record: Record) -> bool:
    """Tell whether the cluster was deployed with monitoring."""
    return bool((record.config.get("monitoring") or {}).get("enabled"))


def require(state_dir: StateDir, record: Record) -> None:
    """Raise StateError if the cluster was deployed without monitoring."""
    if not is_enabled(record):
        makes = command("deploy --monitoring", state_dir.name)
        raise StateError(f"cluster {state_dir.name!r} has no monitoring", f"{makes} starts it")


@contextlib.contextmanager
def connect(
    state_dir: StateDir, record: Record, cluster: Cluster, answers: float = ANSWER_SECONDS, lasts: float = math.inf
) -> Iterator[tuple[Prometheus, Background]]:
    """Connect to Prometheus through a tunnel.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the cluster.
        cluster: Deployed cluster.
        answers: Seconds within which Prometheus must answer first.
        lasts: Seconds after which its client refuses further queries.

    Yields:
        The client of Prometheus, and the ssh client.

    Raises:
        StateError: The cluster has no monitoring.
        CommandFailed: The tunnel cannot be opened.
        NodesFailed: Prometheus does not answer in time.
    """
    require(state_dir, record)
    port = tunnel.free_port(None)
    client = Prometheus(f"http://{tunnel.LOCALHOST}:{port}", cluster.name, time.monotonic() + lasts)
    with client as prometheus, tunnel.open_tunnel(state_dir, cluster, {PROMETHEUS: port}, answers) as opened:
        yield prometheus, opened


def ray_token(state_dir: StateDir, cluster: Cluster) -> str:
    """Return the token that Ray's dashboard asks for; "" if no run of Ray is active. Raises CommandFailed."""
    # If there are several, an older run was killed with its head.
    newest = f'"$(ls -t {run_record.directory("*")}/{RAY_TOKEN} 2>/dev/null | head -n 1)"'
    return _read_on_head(state_dir, cluster, "Ray's token", newest)


def _read_on_head(state_dir: StateDir, cluster: Cluster, what: str, path: str) -> str:
    """Return the words of a file on the head; "" if it is missing. Raises CommandFailed."""
    argv = ssh.client_command(
        state_dir, cluster, cluster.head, [f"cat {path} 2>/dev/null || true"], ["-o", "BatchMode=yes"]
    )
    try:
        return " ".join(process.run(f"ask the head for {what}", argv, seconds=ANSWER_SECONDS).split())
    except CommandFailed as error:
        error.hint = f"{command('status', cluster.name)} shows whether the head answers"
        raise


def grafana_lack(state_dir: StateDir, record: Record, cluster: Cluster) -> str:
    """Return why Grafana does not run on the head; "" if it does.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the cluster.
        cluster: Deployed cluster.

    Returns:
        The reason, or "".

    Raises:
        CommandFailed: The head does not answer.
    """
    if record.config["monitoring"].get("grafana") == "off":
        return "monitoring.grafana is off"
    answer = _read_on_head(state_dir, cluster, "Grafana", GRAFANA_RECORD)
    return "" if answer == INSTALLED else answer or "no deploy has installed it"
