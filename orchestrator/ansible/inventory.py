"""Build the Ansible inventory and the Prometheus targets of a Cluster. Pure: no input, no output, no clock."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.cluster import Cluster, Node
from orchestrator.errors import ConfigError
from orchestrator.schema.bounded_files import shown
from orchestrator.ssh.openssh import escaped, proxied, ssh_options, tunnel

EXPORTERS = {"node": 9100, "orchestrator": 9401, "dcgm": 9400}  # ports, by the name of Prometheus' job
WITHOUT_DCGM = (None, "none", "vgpu")  # drivers; trainer-exporter monitors vGPUs
TEMPLATE = re.compile(r"\{[{%#]")  # begin of what Ansible evaluates in an inventory, on this machine


def inventory(
    cluster: Cluster, key: Path, known_hosts: Path, host_keys: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the Ansible inventory, whose groups are the feature switches.

    The playbook fills the groups `configured` (unchanged since the last deploy) and `unconfigured`.

    Args:
        cluster: Deployed cluster.
        key: Path of the cluster's private key.
        known_hosts: Path of the pinned host keys.
        host_keys: Host keys by node id.
        settings: Variables for every host. A true ``jupyter`` puts the head into the group of that name; a true
            ``monitoring`` makes the head monitor every node.

    Returns:
        The inventory, as YAML or JSON inventories hold it.

    Raises:
        ConfigError: A name or a value holds a template.
    """
    common = {
        "ansible_user": cluster.ssh_user,
        "ansible_ssh_private_key_file": escaped(key),  # which Ansible puts between quotation marks
        "ansible_ssh_common_args": shlex.join(ssh_options(known_hosts)),
        "ansible_python_interpreter": "/usr/bin/python3",
        "cluster_name": cluster.name,
        **settings,
    }
    described = {name: _host(node, host_keys[node.id]) for name, node in cluster.nodes.items()}
    if settings.get("monitoring"):
        described[cluster.head]["monitoring_targets"] = targets(cluster, settings.get("gpu_driver"))
    for name in cluster.nodes:
        through = proxied(tunnel(cluster, name, key, known_hosts))
        described[name] |= {"ansible_ssh_extra_args": shlex.join(through)} if through else {}
    members = _members(cluster, settings)
    children: dict[str, Any] = {group: {"hosts": {name: {} for name in names}} for group, names in members.items()}
    everything = {"all": {"vars": common, "hosts": described, "children": children}}
    _require_no_templates(everything)
    return everything


def _require_no_templates(inventory: Mapping[str, Any]) -> None:
    """Raise ConfigError if Ansible would evaluate a text.

    Another person may have written cluster.yaml, or control a host.
    """
    for place, text in _texts(inventory):
        if TEMPLATE.search(text):
            problem = f"{place}: {shown(text)}: holds a template, which Ansible would run on this machine"
            raise ConfigError([problem], "take {{, {% and {# out of this name, path or key of cluster.yaml")


def _texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each key and value."""
    if isinstance(value, str):
        yield place, value
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield place, str(key)
        yield from _texts(inner, f"{place}.{key}".lstrip("."))


def _members(cluster: Cluster, settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the nodes of each group."""
    everyone, head, monitored = list(cluster.nodes), [cluster.head], bool(settings.get("monitoring"))
    return {
        "head": head,
        "workers": everyone[1:],
        "gpu": [name for name, node in cluster.nodes.items() if node.gpus],
        "nfs": everyone if cluster.storage == "nfs" else [],
        "containers": everyone if cluster.trainer == "container" else [],
        "jupyter": head if settings.get("jupyter") else [],
        "monitored": everyone if monitored else [],
        "monitoring": head if monitored else [],
        "unmonitored": everyone if settings.get("monitoring_state") == "absent" else [],
        "dcgm": _with_dcgm(cluster, settings.get("gpu_driver")) if monitored else [],
        "configured": [],
        "unconfigured": [],
    }


def _host(node: Node, host_key: str) -> dict[str, Any]:
    return {
        "ansible_host": node.address,
        "ansible_port": node.port,
        "private_address": node.private_address,
        "slots": node.slots,
        "host_key": host_key,
    }


def targets(cluster: Cluster, gpu_driver: str | None = None) -> list[dict[str, Any]]:
    """List the targets of Prometheus in file_sd format: each exporter of each node, with the node's name and role.

    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
    """
    with_dcgm = _with_dcgm(cluster, gpu_driver)
    return [
        {
            "targets": [f"{node.private_address}:{port}"],
            "labels": {"job": job, "node": name, "cluster": cluster.name, "role": node.role},
        }
        for job, port in EXPORTERS.items()
        for name, node in cluster.nodes.items()
        if job != "dcgm" or name in with_dcgm
    ]


def _with_dcgm(cluster: Cluster, gpu_driver: str | None) -> list[str]:
    """Return the nodes whose GPUs NVIDIA's exporter can monitor: it is a container, and does not support vGPUs."""
    if cluster.trainer != "container" or gpu_driver in WITHOUT_DCGM:
        return []
    return [name for name, node in cluster.nodes.items() if node.gpus]
