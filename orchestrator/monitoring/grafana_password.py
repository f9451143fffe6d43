"""Grafana's password, kept on the control side; an Ansible role reads it from there."""

from contextlib import AbstractContextManager

from orchestrator.config import Config
from orchestrator.services import password_file
from orchestrator.services.password_file import Secret
from orchestrator.state import StateDir

USER = "admin"


def provision_password(state_dir: StateDir, config: Config) -> AbstractContextManager[None]:
    """Wrap a deploy: keep the password for as long as the head has, or may have, Prometheus and Grafana."""
    return password_file.provision_password(
        state_dir.monitoring, Secret, config.monitoring.enabled, config.monitoring_password
    )


def read(state_dir: StateDir) -> str | None:
    """Read the password; None without monitoring. Raises StateError if the file cannot be read."""
    secret = password_file.read(state_dir.monitoring, Secret)
    return secret.password if secret else None
