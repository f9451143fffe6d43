"""Provider of nodes that are servers of an OpenStack cloud."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.config import Config
from orchestrator.providers import Resource
from orchestrator.providers.caller_address import caller_addresses
from orchestrator.providers.openstack import preflight_checks
from orchestrator.providers.openstack.api import catalogue, cluster_resources, removal
from orchestrator.providers.openstack.api.cluster_resources import Holding
from orchestrator.providers.openstack.api.connection import Cloud
from orchestrator.providers.openstack.cloud_objects import Site, require_same_login
from orchestrator.providers.openstack.gpus import model
from orchestrator.providers.provisioning import destroy, provision, resolved_config, unmanaged
from orchestrator.providers.trainer_image import prepare, trainer_digest
from orchestrator.state import Record

__all__ = ["destroy", "prepare", "provision", "trainer_digest", "unmanaged"]


def preflight(config: Config, record: Record | None) -> None:
    """Check the credentials, that requested resources exist and fit together, and that the quotas are large enough."""
    preflight_checks.require(Site(config, record))


def default_allow_from(config: Config, record: Record | None) -> list[str]:
    """Return this machine's address, as seen on the way to the floating IPs or to the nodes' own network."""
    site, settings = Site(config, record), config.openstack
    near = site.external() if settings.floating_ip else site.network()
    subnets = catalogue.subnets(site.cloud, near) if near else [settings.subnet]
    last = [str(subnet[-2] if subnet.num_addresses > 1 else subnet[0]) for subnet in subnets]
    return caller_addresses([*last, site.cloud.host])


def variables(config: Config, record: Record) -> dict[str, Any]:
    """Return the settings with names resolved to ids.

    The image stays the one that the nodes were made of, as long as its configured name is the same.
    """
    site, settings = Site(config, record), config.openstack
    image, network, external = site.image(), site.network(), site.external()
    return {
        "cloud": site.cloud.entry,
        **{key: site.cloud.login[key] for key in ("project", "region", "interface", "cacert")},
        "image": image.id if image else site.pinned,
        **{role: _machine(site, role) for role in ("head", "worker")},
        **settings.model_dump(include={"volume_size", "volume_type", "floating_ip", "dns", "config_drive"}),
        **settings.model_dump(include={"availability_zone", "server_group"}),
        "network": network.id if network else None,
        "subnet": str(settings.subnet),
        "external_network": external.id if external else None,
        "external_network_name": external.name if external else None,
    }


def _machine(site: Site, role: str) -> dict[str, Any]:
    """Return flavor, cores and GPUs of a node."""
    flavor = site.flavor(role)
    return {"flavor": flavor.id, "cpus": flavor.cpus, "gpus": site.gpus(role)}


def gpu_and_image(config: Config, record: Record | None) -> tuple[str | None, str]:
    """Return the GPUs of the workers' flavor, else of the head's: all nodes have the same image and driver."""
    site = Site(config, record)
    for role in ("worker", "head"):
        if site.gpus(role):
            flavor = site.flavor(role)
            return model(flavor.properties, flavor.name, flavor.cpus), config.openstack.image or ""
    return None, config.openstack.image or ""


def list_resources(record: Record) -> list[Resource]:
    """Return resources of this deployment, found by tag, by metadata, and by name if they have no tags."""
    return [_resource(holding) for holding in _of_deployment(record)]


def unowned_resources(config: Config) -> list[Resource]:
    """Return every resource with the cluster's name, of any deployment."""
    return [_resource(holding) for holding in _owned(config, Cloud(config.openstack.cloud))]


def _of_deployment(record: Record) -> list[Holding]:
    """Return the cloud's objects of this deployment. Raise PreflightError with credentials for another project."""
    config = resolved_config(record)
    cloud = Cloud(config.openstack.cloud)
    require_same_login(config, record.variables.get("openstack", {}), cloud)
    return [holding for holding in _owned(config, cloud) if holding.id == record.id]


def _owned(config: Config, cloud: Cloud) -> list[Holding]:
    return [holding for holding in cluster_resources.owned(cloud) if holding.cluster == config.name]


def to_replace(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Return servers in ERROR. Terraform itself notices deleted servers and starts those that are shut off."""
    broken = {resource.key for resource in list_resources(record) if not resource.usable}
    return [address for address, identity in recorded.items() if identity in broken]


def failure_reasons(record: Record) -> dict[str, str]:
    """Return Nova's reasons for servers in ERROR: Terraform does not report them."""
    return {holding.name: holding.fault for holding in _of_deployment(record) if holding.fault}


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Remove servers first and networks last, and wait until they are gone."""
    things = [(resource.kind, resource.key) for resource in resources]
    if things:
        removal.remove(Cloud(config.openstack.cloud), things)


def priced(config: Config) -> dict[str, int]:
    """Return the number of servers by flavor."""
    settings = config.openstack
    flavors = [settings.head_flavor or settings.flavor, *[settings.flavor] * (config.nodes - 1)]
    return dict(Counter(flavor for flavor in flavors if flavor))


def _resource(holding: Holding) -> Resource:
    return Resource(holding.kind, holding.name, holding.key, holding.status != "ERROR")
