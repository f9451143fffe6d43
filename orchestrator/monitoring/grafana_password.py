"""Grafana's password, kept on the control side; an Ansible role reads it from there."""

from contextlib import AbstractContextManager

from orchestrator.config import Config
from orchestrator.services import password
from orchestrator.services.password import Secret
from orchestrator.state import Home

USER = "admin"


def settled(place: Home, wanted: Config) -> AbstractContextManager[None]:
    """Wrap a deploy: keep the password for as long as the head has, or may have, Prometheus and Grafana."""
    return password.settled(place.monitoring, Secret, wanted.monitoring.enabled, wanted.monitoring_password)


def read(place: Home) -> str | None:
    """Read the password; None without monitoring. Raises StateError if the file cannot be read."""
    kept = password.read(place.monitoring, Secret)
    return kept.password if kept else None
