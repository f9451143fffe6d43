"""What OpenSSH's client is told: its options, and the way to a node through other machines. Starts nothing."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from orchestrator.cluster import Cluster

IAP = "iap:"


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
