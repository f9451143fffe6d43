"""Options of the OpenSSH client, and the commands that reach a node through other machines. Starts nothing."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.cluster import Cluster

IAP = "iap:"
# End if the other side is lost, for example because this machine slept or changed its network.
ALIVE = {"ServerAliveInterval": "10", "ServerAliveCountMax": "3"}


def ssh_options(known_hosts: Path) -> list[str]:
    """Return options of the OpenSSH client: pinned host keys, only the cluster's key, no waiting for lost nodes.

    The user's ssh configuration is ignored.
    """
    options = {
        "UserKnownHostsFile": quoted(known_hosts),
        "GlobalKnownHostsFile": os.devnull,
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        **ALIVE,
        "ConnectTimeout": "10",
    }
    return ["-F", os.devnull, *_words(options)]


def identity(key: Path) -> list[str]:
    """Return the option for a private key. In the value of ``-i``, a percent sign cannot be escaped."""
    return ["-o", f"IdentityFile={quoted(key)}"]


def quoted(path: Path) -> str:
    """Return a path as the value of an option (ssh_config(5), TOKENS)."""
    return f'"{escaped(path)}"'


def escaped(path: Path) -> str:
    """Return a path as a program writes it between quotation marks into an option."""
    return str(path).replace("%", "%%").replace("\\", r"\\").replace('"', r"\"")


def _words(options: Mapping[str, str]) -> list[str]:
    return [part for key, value in options.items() for part in ("-o", f"{key}={value}")]


def tunnel(cluster: Cluster, name: str, key: Path, known_hosts: Path) -> list[str]:
    """Build the command that connects standard input and output to the sshd of a node behind another machine.

    It goes through the head with the cluster's key, or through ``cluster.jump`` with the user's own ssh settings.

    Args:
        cluster: Deployed cluster.
        name: Name of the node.
        key: Path of the cluster's private key.
        known_hosts: Path of the pinned host keys.

    Returns:
        The argument list; empty if the node is reached directly.
    """
    node = cluster.nodes[name]
    if cluster.behind(name):
        head = cluster.nodes[cluster.head]
        through = ["ssh", *identity(key), *ssh_options(known_hosts), "-o", "BatchMode=yes", "-p", str(head.port)]
        through = [*through, *proxied(tunnel(cluster, cluster.head, key, known_hosts))]
        return [*through, "-W", f"{node.address}:{node.port}", f"{cluster.ssh_user}@{head.address}"]
    if cluster.jump and cluster.jump.startswith(IAP):
        project, _, zone = cluster.jump.removeprefix(IAP).partition("/")
        return iap_command(project, zone, name, node.port)
    if cluster.jump:
        return jump_command(cluster.jump, f"{node.address}:{node.port}")
    return []


def iap_command(project: str, zone: str, instance: str, port: int) -> list[str]:
    """Build the command for Google's Identity-Aware Proxy (`gcloud compute start-iap-tunnel --help`).

    Args:
        project: Google Cloud project.
        zone: Zone of the instance.
        instance: Name of the instance.
        port: Port of the instance.

    Returns:
        The argument list.
    """
    where = ["--project", project, "--zone", zone]
    return ["gcloud", "compute", "start-iap-tunnel", instance, str(port), "--listen-on-stdin", *where]


def jump_command(jump: str, target: str) -> list[str]:
    """Build the command that connects to ``target`` (ADDRESS:PORT) through the user's ``jump`` (USER@HOST:PORT)."""
    host, _, port = jump.partition(":")
    options = _words({"BatchMode": "yes", **ALIVE})
    return ["ssh", *options, *(("-p", port) if port else ()), "-W", target, host]


def proxied(command: Sequence[str]) -> list[str]:
    """Return the OpenSSH option that connects through ``command``; empty without a command."""
    return ["-o", f"ProxyCommand={shlex.join(command).replace('%', '%%')}"] if command else []
