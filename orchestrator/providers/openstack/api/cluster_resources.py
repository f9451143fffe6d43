"""Resources of clusters on a cloud, found by tag or metadata, and by name if they have no tags or none yet."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from openstack.exceptions import ForbiddenException, NotFoundException

from orchestrator.providers.openstack.api.catalogue import has_volumes
from orchestrator.providers.openstack.api.connection import Cloud, asking

MARK = "orchestrator"
_TAG = re.compile(rf"{MARK}:(?P<cluster>[a-z0-9-]+):(?P<id>[0-9a-f]{{8}})")
# Greedy: if the cluster's own name looks like a name with an id, the last id counts.
_NAME = re.compile(rf"{MARK}-(?P<cluster>[a-z0-9-]+)-(?P<id>[0-9a-f]{{8}})(-[a-z0-9-]+)?")


@dataclass(frozen=True)
class Holding:
    """Resource of deployment ``id`` of ``cluster``.

    Only servers have a ``status`` and, if that is ERROR, a ``fault``: the cloud's message. Only volumes have a ``size``
    (GiB).
    """

    kind: str
    name: str
    key: str
    cluster: str
    id: str
    status: str = ""
    fault: str = ""
    size: int = 0


Listing = Callable[[Cloud], Iterator[Holding | None]]
Excused = tuple[type[Exception], ...]


def owner(name: str, tags: Iterable[str]) -> tuple[str, str] | None:
    """Return cluster and id of the deployment that owns a resource. Tags take precedence over names."""
    marks = {(match["cluster"], match["id"]) for match in map(_TAG.fullmatch, tags) if match}
    if not marks and (named := _NAME.fullmatch(name)):
        marks = {(named["cluster"], named["id"])}
    return marks.pop() if len(marks) == 1 else None  # a resource with two owners is left alone


def owned(cloud: Cloud) -> list[Holding]:
    """Return all resources in this project that belong to any cluster."""
    services = cloud.connection.compute, cloud.connection.network  # made here, before threads could make them twice
    # If a kind cannot be listed, none was made. Every cloud that has a cluster can list servers, networks and keys.
    unknown, refused = (NotFoundException,), (NotFoundException, ForbiddenException)
    listings: list[tuple[Listing, Excused]] = [
        (_servers, ()),
        (_volumes, refused),
        *((_of_neutron(kind), unknown if kind in _OF_ROUTERS else ()) for kind in _NEUTRON),
        (_interfaces, unknown),
        (_keypairs, ()),
        (_server_groups, refused),
    ]
    with ThreadPoolExecutor(len(services) * 2) as pool:
        answers = pool.map(lambda listing, excused: _run_listing(listing, excused, cloud), *zip(*listings, strict=True))
        return [holding for answer in answers for holding in answer]


def _run_listing(listing: Listing, excused: Excused, cloud: Cloud) -> list[Holding]:
    with asking("list resources of this project", "resource", "list"):
        try:
            return [holding for holding in listing(cloud) if holding]
        except excused:
            return []


def _holding(
    kind: str, name: str, key: str, tags: Iterable[str], marked_text: str | None = None, **details: Any
) -> Holding | None:
    whose = owner(name if marked_text is None else marked_text, tags)
    return Holding(kind, name or key, key, *whose, **details) if whose else None


def _servers(cloud: Cloud) -> Iterator[Holding | None]:
    for server in cloud.connection.compute.servers():
        fault = str((server.fault or {}).get("message", ""))
        yield _holding("server", server.name, server.id, _marks(server.metadata), "", status=server.status, fault=fault)


def _volumes(cloud: Cloud) -> Iterator[Holding | None]:
    for volume in cloud.connection.block_storage.volumes() if has_volumes(cloud) else ():
        yield _holding("volume", volume.name or "", volume.id, _marks(volume.metadata), size=volume.size or 0)


def _keypairs(cloud: Cloud) -> Iterator[Holding | None]:
    for keypair in cloud.connection.compute.keypairs():
        yield _holding("keypair", keypair.name, keypair.name, ())


def _server_groups(cloud: Cloud) -> Iterator[Holding | None]:
    for group in cloud.connection.compute.server_groups():
        yield _holding("server-group", group.name, group.id, ())


def _interfaces(cloud: Cloud) -> Iterator[Holding | None]:
    """Yield the ports of clusters' routers in subnets: they have no name and no tag, and block the removal of both."""
    network = cloud.connection.network
    routers = {router.id: router for router in network.routers(project_id=cloud.project)}
    for port in network.ports(project_id=cloud.project):
        router = routers.get(port.device_id)
        if router and router.project_id == cloud.project and "interface" in (port.device_owner or ""):
            yield _holding("router-interface", router.name or "", port.id, router.tags or ())


def _marks(metadata: Mapping[str, str] | None) -> list[str]:
    return [f"{MARK}:{(metadata or {}).get(MARK)}"]


# Kind -> openstacksdk's name of the listing.
_NEUTRON = {
    "floating-ip": "ips",
    "router": "routers",
    "port": "ports",
    "subnet": "subnets",
    "network": "networks",
    "security-group": "security_groups",
}
_OF_ROUTERS = ("floating-ip", "router")  # a site may have networks without routers


def _of_neutron(kind: str) -> Listing:
    """Return a listing limited to this project: an administrator would see other projects too."""

    def listing(cloud: Cloud) -> Iterator[Holding | None]:
        documents: Iterable[Any] = getattr(cloud.connection.network, _NEUTRON[kind])(project_id=cloud.project)
        for thing in documents:
            if thing.project_id != cloud.project:
                continue
            if kind == "floating-ip":  # it has no name, but a description since its creation
                yield _holding(kind, thing.floating_ip_address, thing.id, thing.tags or (), thing.description or "")
            else:
                yield _holding(kind, thing.name or "", thing.id, thing.tags or ())

    return listing
