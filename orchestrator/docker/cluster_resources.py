"""Find and remove the containers, networks and volumes of clusters on the Docker Engine, by their labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from orchestrator.docker.engine import Engine, asking, if_it_exists

CLUSTER_LABEL, ID_LABEL = "orchestrator.cluster", "orchestrator.id"


@dataclass(frozen=True)
class Holding:
    """A resource of deployment ``id`` of ``cluster``; ``running`` applies to containers only."""

    kind: str
    name: str
    key: str
    cluster: str
    id: str
    running: bool = True


@dataclass(frozen=True)
class Network:
    """An IPv4 network of the engine; ``id`` is that of its deployment, "" for networks without the project's label."""

    name: str
    id: str
    subnet: IPv4Network


def owned(engine: Engine) -> list[Holding]:
    """List every container, network and volume with the project's labels, of any cluster."""
    api, label = engine.client.api, {"label": CLUSTER_LABEL}
    with asking("list resources of this project", "ps"):
        containers = api.containers(all=True, filters=label)
        running = {c["Id"]: c["State"] == "running" and _is_connected(engine, c) for c in containers}
        networks = api.networks(filters=label)
        volumes = api.volumes(filters=label)["Volumes"] or []
    return [
        *(_holding("container", c["Names"][0][1:], c["Id"], c["Labels"], running[c["Id"]]) for c in containers),
        *(_holding("network", n["Name"], n["Id"], n["Labels"]) for n in networks),
        *(_holding("volume", v["Name"], v["Name"], v["Labels"]) for v in volumes),
    ]


def networks(engine: Engine) -> list[Network]:
    """List the IPv4 networks of the engine, one entry per subnet."""
    with asking("list networks", "network", "ls"):
        listed = engine.client.networks.list()
    return [
        Network(n.attrs["Name"], (n.attrs.get("Labels") or {}).get(ID_LABEL, ""), IPv4Network(c["Subnet"], False))
        for n in listed
        for c in n.attrs["IPAM"].get("Config") or []
        if ":" not in c.get("Subnet", ":")
    ]


def remove(engine: Engine, kind: str, key: str) -> None:
    """Remove a container, network or volume; do nothing if it is gone.

    Args:
        engine: Docker Engine that has it.
        kind: "container", "network" or "volume".
        key: Its id or name.

    Raises:
        CommandFailed: The engine refuses, or does not answer.
    """
    with asking(f"remove {kind}", kind, "rm", key), if_it_exists():
        if kind == "container":
            engine.client.containers.get(key).remove(force=True, v=True)
        elif kind == "network":
            engine.client.networks.get(key).remove()
        else:
            engine.client.volumes.get(key).remove(force=True)


def _is_connected(engine: Engine, container: Mapping[str, Any]) -> bool:
    """Tell whether a container in another one's network still has it: a restart of that one makes a new network."""
    kind, _, other = container.get("HostConfig", {}).get("NetworkMode", "").partition(":")
    return kind != "container" or _started(engine, other) < _started(engine, container["Id"])


def _started(engine: Engine, key: str) -> str:
    """Return the last start of a container in a form that sorts; "~", which sorts last, without a container."""
    with if_it_exists():
        return str(engine.client.api.inspect_container(key)["State"]["StartedAt"]).rstrip("Z")
    return "~"


def _holding(kind: str, name: str, key: str, labels: Mapping[str, str], running: bool = True) -> Holding:
    return Holding(kind, name, key, labels[CLUSTER_LABEL], labels.get(ID_LABEL, ""), running)
