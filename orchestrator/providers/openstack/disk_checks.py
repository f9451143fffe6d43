"""Check that a repeated deploy makes no disk of an existing node smaller: neither Cinder nor Nova can do that."""

from functools import partial

from orchestrator.errors import PreflightError, command, gather
from orchestrator.providers.openstack.cloud_objects import Site


def require(site: Site) -> None:
    """Raise PreflightError if a volume, or the head's own disk, would have to shrink.

    Nodes of another image are replaced with their disks, and workers of another flavor are replaced too.
    """
    image = site.image()
    if site.record and (image.id if image else site.pinned) == site.before.get("image"):
        gather(partial(_volumes, site), partial(_disk_of_head, site))


def _volumes(site: Site) -> None:
    asked, largest = site.settings.volume_size, max((volume.size for volume in site.volumes), default=0)
    if asked and asked < largest:
        raise PreflightError(
            f"openstack.volume_size: {asked} GiB asked for, the nodes have volumes of {largest}, and none can shrink",
            f"ask for {largest} or more, or {command('teardown', site.config.name)} first",
        )


def _disk_of_head(site: Site) -> None:
    """Check the flavor of the head, which is resized in place if it has no volume."""
    before = site.record.applied.get("openstack", {}) if site.record else {}
    flavor, last = site.existing_flavors.get("head"), site.applied_flavor("head")
    on_volume = before.get("volume_size") or site.settings.volume_size
    if flavor and last and not on_volume and f"{site.config.name}-head" in site.servers and flavor.disk < last.disk:
        key = "openstack.head_flavor" if site.settings.head_flavor else "openstack.flavor"
        raise PreflightError(
            f"{key}: {flavor.name!r} has a disk of {flavor.disk} GiB, the head has one of {last.disk}, "
            "and it cannot shrink",
            f"set openstack.head_flavor: {last.name}, or {command('teardown', site.config.name)} first",
        )
