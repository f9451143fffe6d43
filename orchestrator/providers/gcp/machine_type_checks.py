"""Check that the zone has the machine types, disks and GPUs asked for, and that the quotas allow their number."""

from functools import partial

from orchestrator.config import nearest
from orchestrator.errors import PreflightError, gather
from orchestrator.providers.gcp import quota_checks
from orchestrator.providers.gcp.api import Document
from orchestrator.providers.gcp.cloud_objects import WITH_ADDED_GPUS, Site, family, listed

# Prefixes of machine types that Google gives no Persistent Disk.
ONLY_HYPERDISK = (
    "a3-ultragpu-",
    "a4-",
    "a4x-",
    "c4-",
    "c4a-",
    "c4d-",
    "g4-",
    "h4d-",
    "m4-",
    "n4-",
    "n4a-",
    "n4d-",
    "x4-",
)
NEVER_COMPACT = ("e2", "f1", "g1", "n1", "t2a", "t2d")  # families without compact placement


def require(site: Site) -> None:
    """Raise PreflightError with everything that the zone lacks or cannot combine, and quotas that are too small."""
    roles = ["worker", "head"] if site.settings.head_machine_type else ["worker"]
    machines = [partial(check, site, role) for role in roles for check in (Site.machine, _compact, _disk)]
    gather(*machines, partial(_disk_type, site), partial(_accelerator, site), partial(quota_checks.require, site))


def _compact(site: Site, role: str) -> None:
    if site.settings.compact and family(site.type_of(role)) in NEVER_COMPACT:
        raise PreflightError(
            f"gcp.compact: {site.type_of(role)} cannot be placed compactly",
            "set gcp.compact: false, or choose a machine type such as c2, n2 or a2",
        )


def _disk(site: Site, role: str) -> None:
    disk_type, machine_type = site.settings.disk_type, site.type_of(role)
    if disk_type.startswith("pd-") and machine_type.startswith(ONLY_HYPERDISK):
        raise PreflightError(
            f"gcp.disk_type: {machine_type} cannot have a disk of type {disk_type}",
            "set gcp.disk_type: hyperdisk-balanced, or choose another machine type",
        )


def _disk_type(site: Site) -> None:
    name, zone = site.settings.disk_type, site.settings.zone
    if site.in_zone("diskTypes", name) is None:
        names = [item["name"] for item in site.google.items(f"projects/{site.project}/zones/{zone}/diskTypes")]
        raise PreflightError(f"gcp.disk_type: zone {zone} has no {name!r}{nearest(name, names)}", listed(names))


def _accelerator(site: Site) -> None:
    """Check that the zone has such GPUs, and that the machine type takes as many of them, or has them built in."""
    name = site.settings.accelerator
    if not name:
        return
    accelerator = site.in_zone("acceleratorTypes", name)
    if accelerator is None:
        available = site.google.items(f"projects/{site.project}/zones/{site.settings.zone}/acceleratorTypes")
        names = [item["name"] for item in available]
        message = f"gcp.accelerator: zone {site.settings.zone} has no {name!r}{nearest(name, names)}"
        raise PreflightError(message, listed(names))
    gather(partial(_takes, site, name), partial(_few_enough, site, accelerator))


def _few_enough(site: Site, accelerator: Document) -> None:
    most = int(accelerator.get("maximumCardsPerInstance", site.settings.accelerators))
    if site.settings.accelerators > most:
        message = (
            f"gcp.accelerators: {site.settings.accelerators} asked for, an instance takes {most} {accelerator['name']}"
        )
        raise PreflightError(message, f"ask for {most} or fewer")


def _takes(site: Site, accelerator: str) -> None:
    name, has = site.type_of("worker"), accelerator
    if "worker" in site.existing_machine_types:
        has = site.shape("worker")["accelerator"]
    if has != accelerator:
        brings = f"has {has} built in" if has else "takes no GPUs"
        raise PreflightError(
            f"gcp.accelerator: {accelerator} asked for, {name} {brings}",
            f"leave gcp.accelerator out, or choose an {WITH_ADDED_GPUS} machine type",
        )
