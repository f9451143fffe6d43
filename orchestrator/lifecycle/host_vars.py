"""Ansible's host variables other than the inventory's: trainer, driver, Jupyter and monitoring."""

from pathlib import Path
from typing import Any

from orchestrator import providers, terraform
from orchestrator.cluster import Cluster
from orchestrator.config import Monitoring, expanded, stored
from orchestrator.monitoring import alert_receivers
from orchestrator.providers import trainer_image
from orchestrator.providers.local import grafana
from orchestrator.services import jupyter
from orchestrator.state import Record, StateDir


def for_ansible(state_dir: StateDir, record: Record, cluster: Cluster) -> dict[str, Any]:
    """Return the variables of every host; none about the trainer if nodes come with it.

    Args:
        state_dir: State directory of the cluster.
        record: The deployment.
        cluster: The cluster's nodes.

    Returns:
        Values by variable.
    """
    values = jupyter.for_ansible(state_dir, record) | _monitoring(state_dir, record)
    if not terraform.has_root(record.config["provider"]):
        values |= {"machines_stay": True}  # their owner decides how others log in
    if cluster.trainer == "container":
        values |= trainer_image.trainer(record)
    if any(node.gpus for node in cluster.nodes.values()):
        values |= _driver(record)
    return values


def _driver(record: Record) -> dict[str, Any]:
    """Return the variables of the role `nvidia`."""
    gpu, pairing = stored(record.config).gpu, record.gpu
    return {
        "gpu_driver": pairing.driver,
        "gpu_auto": gpu.driver == "auto",
        "gpu_least_driver": pairing.least_driver,
        "gpu_packages": {system: list(names) for system, names in pairing.packages.items()},
        "gpu_first": {system: list(names) for system, names in pairing.first.items()},
        **{
            f"gpu_{name}": _absolute_path(f"gpu.{name}", getattr(gpu, name))
            for name in ("vgpu_installer", "vgpu_token")
        },
    }


def _absolute_path(key: str, path: Path | None) -> str:
    """Return an absolute path, since Ansible resolves relative ones from another directory; "" without a path."""
    return str(expanded(key, path).absolute()) if path else ""


def _monitoring(state_dir: StateDir, record: Record) -> dict[str, Any]:
    """Return the monitoring variables: none if monitoring is off and never was on, so that Ansible runs no task for it.

    The password file on this machine indicates that the cluster has, or may have, monitoring; it is removed once the
    cluster has none.
    """
    config = stored(record.config)
    monitoring, interface = config.monitoring, config.launch.network_interface
    if not monitoring.enabled:
        return {"monitoring": True, "monitoring_state": "absent"} if state_dir.monitoring.exists() else {}
    return {
        "monitoring": True,
        "monitoring_state": "present",
        "monitoring_secret": str(state_dir.monitoring),
        "monitoring_alertmanager": str(alert_receivers.saved(state_dir)),
        **({"monitoring_interface": interface} if interface else {}),
        **_grafana(state_dir, record, monitoring),
        "monitoring_retention_time": monitoring.retention_time,
        "monitoring_retention_size": monitoring.retention_size,
    }


def _grafana(state_dir: StateDir, record: Record, monitoring: Monitoring) -> dict[str, Any]:
    image = {"grafana_image": monitoring.grafana_image} if monitoring.grafana_image else {}
    container = grafana.for_ansible(state_dir, record) if providers.of_one_machine(record) else {}
    return {"monitoring_grafana": monitoring.grafana, **image, **container}
