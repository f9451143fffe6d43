"""Catalogue of a cloud: images, flavors, networks, zones, volume types."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from math import ceil
from typing import Any

from openstack.exceptions import ForbiddenException, NotFoundException, raise_from_response

from orchestrator.providers.openstack.api.connection import VOLUMES, Cloud, asking


@dataclass(frozen=True)
class Image:
    """Image of a cloud. ``disk`` (GiB) and ``memory`` (MiB) are the minimum for a server of it."""

    id: str
    name: str
    status: str
    created: str
    disk: int
    memory: int


@dataclass(frozen=True)
class Flavor:
    """Flavor: ``memory`` in MiB, ``disk`` in GiB (0: none, or as large as the image), ``properties``: extra specs."""

    id: str
    name: str
    cpus: int
    memory: int
    disk: int
    properties: dict[str, str]


@dataclass(frozen=True)
class Network:
    """Network of a cloud. ``in_project``: it belongs to this project, which can therefore see its routers."""

    id: str
    name: str
    external: bool
    in_project: bool


def images(cloud: Cloud, name: str | None = None) -> list[Image]:
    """Return the images with ``name``, or all, newest first."""
    with asking("list images", "image", "list"):
        matching = [_image(image) for image in cloud.connection.image.images(**({"name": name} if name else {}))]
    return sorted(matching, key=lambda image: image.created, reverse=True)


def image(cloud: Cloud, key: str) -> Image | None:
    """Return the image with this id, or None if it is gone."""
    with asking("look for an image", "image", "show", key):
        try:
            return _image(cloud.connection.image.get_image(key))
        except NotFoundException:
            return None


def _image(document: Any) -> Image:
    content = ceil(max(document.size or 0, document.virtual_size or 0) / 2**30)
    least = max(document.min_disk or 0, content)
    return Image(
        document.id, document.name or "", document.status, document.created_at or "", least, document.min_ram or 0
    )


def flavors(cloud: Cloud, names: Collection[str | None] = ()) -> list[Flavor]:
    """Return all flavors; those with a name or id in ``names`` have the extra specs that the account may read."""
    with asking("list flavors", "flavor", "list"):
        return [_flavor(cloud, f, names) for f in cloud.connection.compute.flavors()]


def _flavor(cloud: Cloud, document: Any, names: Collection[str | None]) -> Flavor:
    """Return a flavor. Until Nova's API 2.61, and without the right to see them, the list has no extra specs."""
    if not document.extra_specs and (document.id in names or document.name in names):
        with suppress(ForbiddenException, NotFoundException):
            document = document.fetch_extra_specs(cloud.connection.compute)
    specs = dict(document.extra_specs or {})
    return Flavor(document.id, document.name, int(document.vcpus), int(document.ram), int(document.disk), specs)


def networks(cloud: Cloud) -> list[Network]:
    """Return all networks."""
    with asking("list networks", "network", "list"):
        return [
            Network(n.id, n.name or "", bool(n.is_router_external), n.project_id == cloud.project)
            for n in cloud.connection.network.networks()
        ]


def subnets(cloud: Cloud, network: Network) -> list[IPv4Network]:
    """Return the IPv4 subnets of ``network`` that this project may see: often none of an external network."""
    with asking("list subnets", "subnet", "list", "--network", network.id):
        listed = cloud.connection.network.subnets(network_id=network.id)
        return [IPv4Network(subnet.cidr, strict=False) for subnet in listed if subnet.ip_version == 4]


def takes_security_groups(cloud: Cloud, network: Network) -> bool:
    """Tell whether ports in ``network`` can have security groups, as in any network of a site without port security."""
    with asking("look for a network", "network", "show", network.id):
        answer = cloud.connection.network.get(f"/networks/{network.id}")  # the SDK answers False without the attribute
        raise_from_response(answer)
        return bool(answer.json()["network"].get("port_security_enabled", True))


def is_routed(cloud: Cloud, network: Network) -> bool:
    """Tell whether a router of this project has an interface in ``network``."""
    with asking("list ports", "port", "list", "--network", network.id):
        ports = cloud.connection.network.ports(network_id=network.id)
        return any("router" in (port.device_owner or "") for port in ports)


def zones(cloud: Cloud) -> list[str]:
    """Return the availability zones in which servers can be made."""
    with asking("list availability zones", "availability", "zone", "list", "--compute"):
        listed = cloud.connection.compute.availability_zones()
        return sorted(zone.name for zone in listed if (zone.state or {}).get("available"))


def volume_types(cloud: Cloud) -> list[str]:
    """Return the names of all volume types."""
    with asking("list types of volumes", "volume", "type", "list"):
        return sorted(kind.name for kind in cloud.connection.block_storage.types())


def has_volumes(cloud: Cloud) -> bool:
    """Tell whether the cloud has a volume service."""
    return cloud.endpoint(VOLUMES) is not None
