"""Checks before a deploy on OpenStack. Each one raises PreflightError."""

from functools import partial

from orchestrator.config import nearest
from orchestrator.errors import PreflightError, command, gather
from orchestrator.providers import provisioning, trainer_image
from orchestrator.providers.openstack import disk_checks, quota_checks
from orchestrator.providers.openstack.api import catalogue, credentials
from orchestrator.providers.openstack.api.catalogue import Flavor, Image, Network
from orchestrator.providers.openstack.api.connection import VOLUMES
from orchestrator.providers.openstack.cloud_objects import Site, listed, require_same_login
from orchestrator.providers.openstack.gpus import gpus, named_like_gpus

# States of a server that Terraform cannot handle, and the openstack client's command to leave each.
STUCK = {"SUSPENDED": "resume", "RESCUE": "unrescue", "VERIFY_RESIZE": "resize confirm"}


def require(site: Site) -> None:
    """Raise one PreflightError with all findings."""
    gather(*(partial(site.cloud.require, service) for service in ("compute", "network", "image")))
    checks = (
        _same_cloud,
        _free_name,
        _flavors,
        _gpus,
        _image,
        _network,
        _zone,
        _volumes,
        disk_checks.require,
        _states,
        quota_checks.require,
    )
    gather(*(partial(check, site) for check in checks))


def _same_cloud(site: Site) -> None:
    cloud = site.cloud.entry or "that of OS_AUTH_URL"
    provisioning.require_same_location(site.config, "cloud", site.before.get("cloud"), cloud)
    require_same_login(site.config, site.before, site.cloud)
    credentials.require_terraform_login(site.cloud.connection, site.cloud.entry)


def _free_name(site: Site) -> None:
    unowned = [f"{holding.kind} {holding.name}" for holding in site.owned if holding not in site.deployment_resources]
    provisioning.require_free_name(site.config, "this project", unowned)


def _flavors(site: Site) -> None:
    gather(*(partial(site.flavor, role) for role in (["worker", "head"] if site.settings.head_flavor else ["worker"])))


def _gpus(site: Site) -> None:
    """Check that GPUs of the workers' flavor are not overlooked: each cloud names them in its own way."""
    flavor = site.existing_flavors.get("worker")
    asked = site.settings.gpus is not None or site.config.gpu.driver == "none"
    if flavor and not asked and named_like_gpus(flavor.name) and not gpus(flavor.properties):
        raise PreflightError(
            f"openstack.flavor: {flavor.name!r} reads like one with GPUs, and none of its properties tells how many",
            "set openstack.gpus to their number, or to 0",
        )


def _image(site: Site) -> None:
    image, flavors = site.image(), {flavor.id: flavor for flavor in site.existing_flavors.values()}.values()
    if image:
        gather(partial(_active, site, image), *(partial(_fits, site, image, flavor) for flavor in flavors))
    elif site.missing:
        raise provisioning.image_gone(site.config, site.settings.image)


def _active(site: Site, image: Image) -> None:
    if site.missing and image.status != "active":
        raise PreflightError(f"openstack.image: {image.name!r} is {image.status}, not active", "choose another image")


def _fits(site: Site, image: Image, flavor: Flavor) -> None:
    size, key = site.settings.volume_size, f"flavor {flavor.name!r}"
    if not size and not flavor.disk:
        raise PreflightError(f"openstack.flavor: {key} has no disk", "set openstack.volume_size: servers boot from it")
    disk, hint = size or flavor.disk, "choose a larger one, or another image"
    what = "openstack.volume_size" if size else f"openstack.flavor: the disk of {key}"
    if disk < image.disk:
        raise PreflightError(f"{what}: {disk} GiB, image {image.name!r} needs {image.disk}", hint)
    least = trainer_image.LEAST_ROOM[any(site.gpus(role) for role in site.existing_flavors)]
    if disk < least:
        raise PreflightError(f"{what}: {disk} GiB, the trainer's image alone needs {least}", hint)
    if flavor.memory < image.memory:
        has = f"openstack.flavor: {key} has {flavor.memory} MiB of memory"
        raise PreflightError(f"{has}, image {image.name!r} needs {image.memory}", hint)


def _network(site: Site) -> None:
    gather(partial(_existing, site), partial(_outside, site))


def _existing(site: Site) -> None:
    """Check that the named network can take nodes, and that floating IPs lead into it."""
    network = site.network()
    if network:
        gather(partial(_takes_nodes, site, network), partial(_takes_floating_ips, site, network))


def _takes_nodes(site: Site, network: Network) -> None:
    if not catalogue.subnets(site.cloud, network):
        raise PreflightError(f"openstack.network: {network.name!r} has no IPv4 subnet", "choose another network")
    if site.missing and not catalogue.takes_security_groups(site.cloud, network):
        raise PreflightError(
            f"openstack.network: {network.name!r} has port security turned off: its nodes cannot have a security group",
            "choose another network, or leave openstack.network out to create one, "
            f"or let its owner run `openstack network set --enable-port-security {network.id}`",
        )


def _takes_floating_ips(site: Site, network: Network) -> None:
    if not site.settings.floating_ip:
        return
    if network.external:
        raise PreflightError(
            f"openstack.network: {network.name!r} is external: floating IPs come from it and do not lead into it",
            "set openstack.floating_ip: false",
        )
    if network.in_project and not catalogue.is_routed(site.cloud, network):
        raise PreflightError(
            f"openstack.network: {network.name!r} has no router that a floating IP could lead through",
            "connect it to one, or set openstack.floating_ip: false",
        )


def _outside(site: Site) -> None:
    """Check that floating IPs have one source, and that the nodes' subnet is unchanged and does not overlap it."""
    before = site.before.get("subnet", str(site.settings.subnet))
    if before != str(site.settings.subnet) and any(holding.kind == "subnet" for holding in site.deployment_resources):
        raise PreflightError(
            f"openstack.subnet: {site.settings.subnet} asked for, the cluster's network is made with {before}",
            f"{command('teardown', site.config.name)} first",
        )
    external = site.external()
    if external and site.settings.floating_ip:
        _require_unique_name(site, external)
    for taken in catalogue.subnets(site.cloud, external) if external and not site.settings.network else ():
        if taken.overlaps(site.settings.subnet):
            raise PreflightError(
                f"openstack.subnet: {site.settings.subnet} overlaps {taken} of {external.name if external else ''!r}",
                "choose another",
            )


def _require_unique_name(site: Site, external: Network) -> None:
    """Check that no other network has the name by which Terraform's provider finds the source of a floating IP."""
    alike = sorted(network.id for network in site.networks if network.name == external.name)
    if len(alike) > 1:
        raise PreflightError(
            f"openstack.external_network: {len(alike)} networks are named {external.name!r}: {', '.join(alike)}; "
            "Terraform finds the source of a floating IP by its name only",
            "rename the others, or set openstack.floating_ip: false",
        )


def _zone(site: Site) -> None:
    zone = site.settings.availability_zone
    zones = catalogue.zones(site.cloud) if zone else []
    if zone and zone not in zones:
        message = f"openstack.availability_zone: there is no zone {zone!r}{nearest(zone, zones)}"
        raise PreflightError(message, listed("zone", zones))


def _volumes(site: Site) -> None:
    size, kind = site.settings.volume_size, site.settings.volume_type
    if kind and not size:
        raise PreflightError(f"openstack.volume_type: {kind!r} without openstack.volume_size", "set both, or neither")
    if size and not catalogue.has_volumes(site.cloud):
        hint = "leave it out: servers then boot from the disk of their flavor"
        raise PreflightError(f"openstack.volume_size: {site.cloud.title} has no volume service", hint)
    if size:
        site.cloud.require(VOLUMES)
    kinds = catalogue.volume_types(site.cloud) if kind else []
    if kind and kind not in kinds:
        message = f"openstack.volume_type: there is no type {kind!r}{nearest(kind, kinds)}"
        raise PreflightError(message, listed("type of volume", kinds))


def _states(site: Site) -> None:
    for name, server in site.servers.items():
        if server.status in STUCK:
            hint = (
                f"`openstack server {STUCK[server.status]} {server.key}`, or delete the server, and it is created again"
            )
            raise PreflightError(f"server {name} is {server.status}: Terraform cannot continue with it", hint)
