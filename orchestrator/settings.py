"""What Ansible is told beside the cluster: which trainer, which driver, what else there is."""

from pathlib import Path
from typing import Any

from orchestrator import alerting, notebook, providers, terraform
from orchestrator.cluster import Cluster
from orchestrator.config import Monitoring, expanded, stored
from orchestrator.providers import grafana, machines
from orchestrator.state import Home, Record


def for_ansible(place: Home, record: Record, made: Cluster) -> dict[str, Any]:
    """The variables of every host. Where nodes come with their trainer there are none about it."""
    given = notebook.for_ansible(place, record) | _monitoring(place, record)
    if not terraform.has_root(record.config["provider"]):
        given |= {"machines_stay": True}  # what others log in with is not ours to forbid
    if made.trainer == "container":
        given |= machines.trainer(record)
    if any(node.gpus for node in made.nodes.values()):
        given |= _driver(record)
    return given


def _driver(record: Record) -> dict[str, Any]:
    """NVIDIA's driver, as the role `nvidia` wants it."""
    wanted, pairing = stored(record.config).gpu, record.gpu
    return {
        "gpu_driver": pairing.driver,
        "gpu_auto": wanted.driver == "auto",
        "gpu_least_driver": pairing.least_driver,
        "gpu_packages": {system: list(names) for system, names in pairing.packages.items()},
        "gpu_first": {system: list(names) for system, names in pairing.first.items()},
        **{f"gpu_{name}": _found(f"gpu.{name}", getattr(wanted, name)) for name in ("vgpu_installer", "vgpu_token")},
    }


def _found(key: str, path: Path | None) -> str:
    """As Ansible finds it, which looks elsewhere for what is relative; "" where there is none."""
    return str(expanded(key, path).absolute()) if path else ""


def _monitoring(place: Home, record: Record) -> dict[str, Any]:
    """What is watched and how: nothing where nothing is, or was, so that it costs no task at all.

    The password on this side stands for what the cluster has, or may have: it goes once the cluster is rid of it.
    """
    wanted = stored(record.config).monitoring
    if not wanted.enabled:
        return {"monitoring": True, "monitoring_state": "absent"} if place.monitoring.exists() else {}
    return {
        "monitoring": True,
        "monitoring_state": "present",
        "monitoring_secret": str(place.monitoring),
        "monitoring_alertmanager": str(alerting.kept(place)),
        **_grafana(place, record, wanted),
        "monitoring_retention_time": wanted.retention_time,
        "monitoring_retention_size": wanted.retention_size,
    }


def _grafana(place: Home, record: Record, wanted: Monitoring) -> dict[str, Any]:
    image = {"grafana_image": wanted.grafana_image} if wanted.grafana_image else {}
    beside = grafana.for_ansible(place, record) if providers.of_one_machine(record) else {}
    return {"monitoring_grafana": wanted.grafana, **image, **beside}
