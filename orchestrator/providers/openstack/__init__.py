"""Nodes that are servers of an OpenStack cloud."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.cloud import catalogue, holdings, removal
from orchestrator.cloud.catalogue import Flavor
from orchestrator.cloud.connection import Cloud
from orchestrator.cloud.holdings import Holding
from orchestrator.config import Config
from orchestrator.providers import Resource
from orchestrator.providers.access import caller_addresses
from orchestrator.providers.machines import prepare, trainer_digest
from orchestrator.providers.openstack import preflight as checks
from orchestrator.providers.openstack.gpus import gpus, model
from orchestrator.providers.openstack.site import Site
from orchestrator.providers.terraformed import destroy, provision, strays, told
from orchestrator.state import Record

__all__ = ["destroy", "prepare", "provision", "strays", "trainer_digest"]


def preflight(config: Config, record: Record | None) -> None:
    """Credentials work, what is asked for exists and fits together, and the quotas are large enough."""
    checks.require(Site(config, record))


def callers(config: Config, record: Record | None) -> list[str]:
    """Found out on the way to where the nodes will be: the floating IPs, or their own network."""
    site, wanted = Site(config, record), config.openstack
    near = site.external() if wanted.floating_ip else site.network()
    places = catalogue.subnets(site.cloud, near) if near else [wanted.subnet]
    return caller_addresses([*(str(place[-2]) for place in places), site.cloud.host])


def variables(config: Config, record: Record) -> dict[str, Any]:
    """Names turned into ids. The image stays the one that the nodes were made of as long as its name is asked for."""
    site, wanted = Site(config, record), config.openstack
    image, network, external = site.image(), site.network(), site.external()
    return {
        "cloud": site.cloud.entry,
        "image": image.id if image else site.pinned,
        **{role: _machine(config, role, site.flavor(role)) for role in ("head", "worker")},
        **wanted.model_dump(include={"volume_size", "volume_type", "floating_ip", "dns", "config_drive"}),
        **wanted.model_dump(include={"availability_zone", "server_group"}),
        "network": network.id if network else None,
        "subnet": str(wanted.subnet),
        "external_network": external.id if external else None,
        "external_network_name": external.name if external else None,
    }


def _machine(config: Config, role: str, flavor: Flavor) -> dict[str, Any]:
    """``openstack.gpus`` is about the flavor that most nodes have; a head of another one counts by itself."""
    own = role == "head" and config.openstack.head_flavor not in (None, config.openstack.flavor)
    told = None if own else config.openstack.gpus
    return {"flavor": flavor.id, "cpus": flavor.cpus, "gpus": gpus(flavor.properties) if told is None else told}


def accelerated(config: Config, record: Record | None) -> tuple[str | None, str]:
    """The GPUs of the workers' flavor, else of the head's: its image has the same driver."""
    site = Site(config, record)
    for role in ("worker", "head"):
        flavor = site.flavor(role)
        if _machine(config, role, flavor)["gpus"]:
            return model(flavor.properties) or flavor.name, config.openstack.image or ""
    return None, config.openstack.image or ""


def survey(record: Record) -> list[Resource]:
    """By tag, by metadata, and by name where there are no tags."""
    return [_resource(holding) for holding in _owned(told(record)) if holding.id == record.id]


def strangers(config: Config) -> list[Resource]:
    return [_resource(holding) for holding in _owned(config)]


def _owned(config: Config) -> list[Holding]:
    return [holding for holding in holdings.owned(Cloud(config.openstack.cloud)) if holding.cluster == config.name]


def lost(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Servers in ERROR. One that was deleted Terraform misses by itself, and one that is shut off it starts again."""
    broken = {resource.key for resource in survey(record) if not resource.usable}
    return [address for address, identity in recorded.items() if identity in broken]


def faults(record: Record) -> dict[str, str]:
    """What Nova says of servers in ERROR: Terraform only says that they are."""
    return {
        holding.name: holding.fault for holding in _owned(told(record)) if holding.id == record.id and holding.fault
    }


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Servers first, networks last; waits until they are gone."""
    things = [(resource.kind, resource.key) for resource in resources]
    if things:
        removal.remove(Cloud(config.openstack.cloud), things)


def priced(config: Config) -> dict[str, int]:
    """Servers by flavor."""
    wanted = config.openstack
    flavors = [wanted.head_flavor or wanted.flavor, *[wanted.flavor] * (config.nodes - 1)]
    return dict(Counter(flavor for flavor in flavors if flavor))


def _resource(holding: Holding) -> Resource:
    return Resource(holding.kind, holding.name, holding.key, holding.status != "ERROR")
