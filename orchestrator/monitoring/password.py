"""The password of Grafana's user, kept on this side: a role of Ansible's reads it there."""

from contextlib import AbstractContextManager

from orchestrator import secret
from orchestrator.config import Config
from orchestrator.secret import Secret
from orchestrator.state import Home

USER = "admin"


def settled(place: Home, wanted: Config) -> AbstractContextManager[None]:
    """Around a deploy: as long as there is a password the head has, or may have, Prometheus and Grafana."""
    return secret.settled(place.monitoring, Secret, wanted.monitoring.enabled, wanted.monitoring_password)


def read(place: Home) -> str | None:
    """The password; None where there is no monitoring. Raises StateError where the file cannot be read."""
    kept = secret.read(place.monitoring, Secret)
    return kept.password if kept else None
