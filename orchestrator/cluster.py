"""The cluster as Terraform's one output describes it, and what follows from it. Pure: no input, no output, no clock."""

import os
import shlex
from collections.abc import Container, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from orchestrator.errors import ConfigError, ContractError

SHARED = "/shared"
MIN_SHARED_FREE = 1 << 30  # bytes
PYTHON = "/opt/orchestrator/bin/python"
IAP = "iap:"
EXPORTERS = {"node": 9100, "orchestrator": 9401, "dcgm": 9400}  # ports, by the name of Prometheus' job
WITHOUT_DCGM = (None, "none", "vgpu")  # drivers; vGPUs are watched by the exporter of ours


class Node(BaseModel):
    """One machine. ``id`` changes when the machine is replaced; ``cpus`` may be a fraction; ``slots`` are ranks.

    ``port`` is that of its sshd.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    role: Literal["head", "worker"]
    public_address: str | None
    private_address: str
    port: int = 22
    cpus: float
    gpus: int
    slots: int

    @property
    def address(self) -> str:
        """Where this side reaches it."""
        return self.public_address or self.private_address


class Cluster(BaseModel):
    """The one noun. ``nodes`` maps names to nodes, head first.

    ``storage`` and ``trainer`` say whether nodes come with their /shared and their trainer, or are given them;
    ``jump`` is what they are reached through: USER@HOST:PORT, a machine of the user's own, or iap:PROJECT/ZONE.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    ssh_user: str
    storage: Literal["nfs", "mounted"] = "mounted"
    trainer: Literal["container", "installed"] = "installed"
    jump: str | None = None
    nodes: dict[str, Node]

    @model_validator(mode="after")
    def _one_head_first(self) -> "Cluster":
        roles = [node.role for node in self.nodes.values()]
        if roles.count("head") != 1:
            raise ValueError(f"a cluster has one head, this one has {roles.count('head')}")
        ordered = dict(sorted(self.nodes.items(), key=lambda item: _order(*item)))
        object.__setattr__(self, "nodes", ordered)
        return self

    @property
    def head(self) -> str:
        return next(iter(self.nodes))

    @property
    def slots(self) -> int:
        return sum(node.slots for node in self.nodes.values())

    def behind(self, name: str) -> bool:
        """Whether node ``name`` is reached through the head, which alone has an address outside."""
        outside = self.nodes[self.head].public_address
        return name != self.head and bool(outside) and self.nodes[name].public_address is None

    def without(self, names: Container[str]) -> "Cluster":
        """The same cluster, less some of its workers."""
        kept = {name: node for name, node in self.nodes.items() if name not in names}
        return self.model_copy(update={"nodes": kept})

    def with_one_slot(self) -> "Cluster":
        """The same nodes with a slot each: for a run that works once per node."""
        nodes = {name: node.model_copy(update={"slots": 1}) for name, node in self.nodes.items()}
        return self.model_copy(update={"nodes": nodes})

    def named(self, address: str | None) -> str:
        """The name of the node with this private address or name; the address itself where there is none."""
        return next((n for n, node in self.nodes.items() if address in (n, node.private_address)), str(address))


def _order(name: str, node: Node) -> tuple[bool, int, str]:
    number = name.rpartition("-")[2]
    return node.role != "head", int(number) if number.isdigit() else 0, name


def read(output: Any) -> Cluster:
    """The Cluster in Terraform's output. Raises ContractError where the shape is another."""
    try:
        return Cluster.model_validate(output)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ContractError(f"Terraform's output `cluster` is not a cluster: {problems}") from error


def hosts(cluster: Cluster, np: int | None = None) -> list[str]:
    """Names of the nodes that ``np`` ranks need (default: all), head first: ranks fill them in this order.

    Raises ConfigError where the cluster has fewer slots.
    """
    wanted = cluster.slots if np is None else np
    if not 1 <= wanted <= cluster.slots:
        raise ConfigError([f"launch.np: {wanted} ranks asked for, the cluster has 1 to {cluster.slots} slots"])
    before = accumulate((node.slots for node in cluster.nodes.values()), initial=0)
    return [name for name, slots in zip(cluster.nodes, before, strict=False) if slots < wanted]


def hostfile(cluster: Cluster, np: int | None = None) -> str:
    """Horovod's hostfile over :func:`hosts`. No blank or comment line: Horovod's parser crashes on them."""
    used = [cluster.nodes[name] for name in hosts(cluster, np)]
    return "".join(f"{node.private_address} slots={node.slots}\n" for node in used)


def ssh_options(known_hosts: Path) -> list[str]:
    """Options of the OpenSSH client: pinned host keys, the cluster's key alone, and no waiting for a node that is gone.

    Whatever its user has configured does not count.
    """
    options = {
        "UserKnownHostsFile": f'"{known_hosts}"',
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "ServerAliveInterval": "10",
        "ServerAliveCountMax": "3",
        "ConnectTimeout": "10",
    }
    return ["-F", os.devnull, *(part for key, value in options.items() for part in ("-o", f"{key}={value}"))]


def tunnel(cluster: Cluster, name: str, key: Path, known_hosts: Path) -> list[str]:
    """The command whose input and output are the sshd of node ``name``, where it is reached through another machine.

    Through the head with the cluster's own key; through ``jump`` with whatever the user's ssh has for it.
    """
    node = cluster.nodes[name]
    if cluster.behind(name):
        head = cluster.nodes[cluster.head]
        through = ["ssh", "-i", str(key), *ssh_options(known_hosts), "-o", "BatchMode=yes", "-p", str(head.port)]
        through = [*through, *proxied(tunnel(cluster, cluster.head, key, known_hosts))]
        return [*through, "-W", f"{node.address}:{node.port}", f"{cluster.ssh_user}@{head.address}"]
    if cluster.jump and cluster.jump.startswith(IAP):
        project, _, zone = cluster.jump.removeprefix(IAP).partition("/")
        return iap_command(project, zone, name, node.port)
    if cluster.jump:
        return jump_command(cluster.jump, f"{node.address}:{node.port}")
    return []


def iap_command(project: str, zone: str, instance: str, port: int) -> list[str]:
    """A connection through Google's Identity-Aware Proxy (`gcloud compute start-iap-tunnel --help`)."""
    where = ["--project", project, "--zone", zone]
    return ["gcloud", "compute", "start-iap-tunnel", instance, str(port), "--listen-on-stdin", *where]


def jump_command(jump: str, target: str) -> list[str]:
    """A connection to ``target`` (ADDRESS:PORT) through the user's own ``jump`` (USER@HOST:PORT)."""
    host, _, port = jump.partition(":")
    return ["ssh", "-o", "BatchMode=yes", *(("-p", port) if port else ()), "-W", target, host]


def proxied(command: Sequence[str]) -> list[str]:
    """The option of an OpenSSH client that connects through ``command``; none where it needs none."""
    return ["-o", f"ProxyCommand={shlex.join(command).replace('%', '%%')}"] if command else []


def inventory(
    cluster: Cluster, key: Path, known_hosts: Path, host_keys: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The Ansible inventory: groups are the feature switches. ``host_keys`` by node id; ``settings`` for every host.

    A setting ``jupyter`` that is true puts the head into the group of that name; ``monitoring`` makes it watch every
    node. The groups `settled` and `unsettled` are filled by the playbook.
    """
    common = {
        "ansible_user": cluster.ssh_user,
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": shlex.join(ssh_options(known_hosts)),
        "ansible_python_interpreter": "/usr/bin/python3",
        "cluster_name": cluster.name,
        **settings,
    }
    everyone = list(cluster.nodes)
    members: Mapping[str, list[str]] = {
        "head": [cluster.head],
        "workers": everyone[1:],
        "gpu": [name for name, node in cluster.nodes.items() if node.gpus],
        "nfs": everyone if cluster.storage == "nfs" else [],
        "containers": everyone if cluster.trainer == "container" else [],
        "jupyter": [cluster.head] if settings.get("jupyter") else [],
        "monitored": everyone if settings.get("monitoring") else [],
        "monitoring": [cluster.head] if settings.get("monitoring") else [],
        "dcgm": _with_dcgm(cluster, settings.get("gpu_driver")) if settings.get("monitoring") else [],
        "settled": [],
        "unsettled": [],
    }
    described = {name: _host(node, host_keys[node.id]) for name, node in cluster.nodes.items()}
    if settings.get("monitoring"):
        described[cluster.head]["monitoring_targets"] = targets(cluster, settings.get("gpu_driver"))
    for name in everyone:
        through = proxied(tunnel(cluster, name, key, known_hosts))
        described[name] |= {"ansible_ssh_extra_args": shlex.join(through)} if through else {}
    children: dict[str, Any] = {group: {"hosts": {name: {} for name in names}} for group, names in members.items()}
    return {"all": {"vars": common, "hosts": described, "children": children}}


def _host(node: Node, host_key: str) -> dict[str, Any]:
    return {
        "ansible_host": node.address,
        "ansible_port": node.port,
        "private_address": node.private_address,
        "slots": node.slots,
        "host_key": host_key,
    }


def targets(cluster: Cluster, gpu_driver: str | None = None) -> list[dict[str, Any]]:
    """What Prometheus watches, as its file_sd reads it: each exporter of each node, with the node's name and role.

    https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
    """
    return [
        {
            "targets": [f"{node.private_address}:{port}"],
            "labels": {"job": job, "node": name, "cluster": cluster.name, "role": node.role},
        }
        for job, port in EXPORTERS.items()
        for name, node in cluster.nodes.items()
        if job != "dcgm" or name in _with_dcgm(cluster, gpu_driver)
    ]


def _with_dcgm(cluster: Cluster, gpu_driver: str | None) -> list[str]:
    """The nodes whose GPUs NVIDIA's exporter can watch: it is a container, and knows no vGPUs."""
    possible = cluster.trainer == "container" and gpu_driver not in WITHOUT_DCGM
    return [name for name, node in cluster.nodes.items() if node.gpus and possible]
