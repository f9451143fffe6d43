"""Provider of nodes that are instances of Google Compute Engine."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator import process
from orchestrator.config import Config
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.providers import Resource
from orchestrator.providers.caller_address import caller_addresses
from orchestrator.providers.gcp import preflight_checks
from orchestrator.providers.gcp.api import Google, credentials
from orchestrator.providers.gcp.api.cluster_resources import Holding, owned
from orchestrator.providers.gcp.api.removal import remove as remove_all
from orchestrator.providers.gcp.cloud_objects import WITH_ADDED_GPUS, Site, family
from orchestrator.providers.provisioning import destroy, provision, unmanaged
from orchestrator.providers.trainer_image import prepare, trainer_digest
from orchestrator.state import Record

__all__ = ["destroy", "prepare", "provision", "trainer_digest", "unmanaged"]

ALIVE = ("PROVISIONING", "STAGING", "RUNNING", "REPAIRING")
ON_THE_WAY = ("STOPPING", "SUSPENDING", "PENDING_STOP", "DEPROVISIONING")
SETTLE_SECONDS, LOOK_SECONDS = 180.0, 2.0
GCLOUD_SECONDS = 60.0  # to get a token: gcloud may need many seconds to start
NEAR = "compute.googleapis.com"


def preflight(config: Config, record: Record | None) -> None:
    """Check the credentials, that requested resources exist and fit together, and that the quotas are large enough."""
    credentials.require_one_identity()
    if config.gcp.iap:
        _require_gcloud_account()
    preflight_checks.require(Site(config, record))


def _require_gcloud_account() -> None:
    """Check that gcloud can open tunnels: it ignores application-default credentials, which Terraform uses."""
    process.require("gcloud", "with gcp.iap it opens the way: https://cloud.google.com/sdk/docs/install")
    command = ["gcloud", "auth", "print-access-token", "--quiet"]
    try:
        process.run("check gcloud's account", command, seconds=GCLOUD_SECONDS)
    except CommandFailed as error:  # its output is not shown: it may contain a token
        raise PreflightError(
            f"gcp.iap: gcloud has no account that can open tunnels: `{' '.join(command)}` fails",
            "`gcloud auth login`; `gcloud auth application-default login` has no effect on tunnels",
        ) from error


def default_allow_from(config: Config, record: Record | None) -> list[str]:
    """Return this machine's address as Google sees it; none with Identity-Aware Proxy, which makes the connections."""
    return [] if config.gcp.iap else caller_addresses([NEAR])


def variables(config: Config, record: Record) -> dict[str, Any]:
    """Return the settings with names resolved to links.

    The image stays the one that the nodes were made of, as long as its configured name is the same.
    """
    site = Site(config, record)
    return {
        "project": site.project,
        "region": site.region,
        "zone": site.settings.zone,
        "image": site.image["selfLink"] if site.image else site.pinned,
        "head": site.shape("head"),
        "worker": site.shape("worker"),
        "disk_size": site.settings.disk_size,
        "disk_type": site.settings.disk_type,
        "spot": site.settings.spot,
        "compact": site.settings.compact,
        "subnet": str(site.settings.subnet),
        "iap": site.settings.iap,
    }


def gpu_and_image(config: Config, record: Record | None) -> tuple[str | None, str]:
    """Return the GPUs of the workers, else of the head."""
    site = Site(config, record)
    shapes = [site.shape(role) for role in ("worker", "head")]
    return next((shape["accelerator"] for shape in shapes if shape["gpus"]), None), config.gcp.image


def list_resources(record: Record) -> list[Resource]:
    """Return resources of this deployment, found by label, and by description if they have no labels."""
    return [_resource(holding) for holding in _deployment_resources(record)]


def failure_reasons(record: Record) -> dict[str, str]:
    """Return nothing: Google gives the reason with the failed operation, and Terraform reports it."""
    return {}


def unowned_resources(config: Config) -> list[Resource]:
    """Return every resource with the cluster's name, of any deployment."""
    return [_resource(holding) for holding in Site(config).owned]


def to_replace(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Return instances without a disk to start from.

    Terraform starts all others that do not run (spot instances that Google took back, instances stopped by hand) again,
    with everything on their disks, once they have stopped.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        instances = {h.key: h for h in _deployment_resources(record) if h.kind == "instance"}
        if time.monotonic() > deadline or not any(h.status in ON_THE_WAY for h in instances.values()):
            break
        time.sleep(LOOK_SECONDS)
    broken = {key for key, instance in instances.items() if not instance.bootable}
    return [address for address, identity in recorded.items() if identity in broken]


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Remove resources. Their keys are paths with the project in them; those already gone are no error."""
    things = [(resource.kind, resource.key) for resource in resources]
    if things:
        remove_all(Google(), things)


def priced(config: Config) -> dict[str, int]:
    """Return the number of items by their names in Google's price list. Spot instances have prices of their own."""
    gcp, items = config.gcp, Counter[str]()
    types = [gcp.head_machine_type or gcp.machine_type, *[gcp.machine_type] * (config.nodes - 1)]
    for machine_type in types:
        items[machine_type] += 1
        if gcp.accelerator and family(machine_type) == WITH_ADDED_GPUS:
            items[gcp.accelerator] += gcp.accelerators
    items["external address"] += 0 if gcp.iap else 1
    sale = " spot" if gcp.spot else ""
    behind_nat = {"Cloud NAT": config.nodes - items["external address"]}
    return {name: count for name, count in ({f"{n}{sale}": c for n, c in items.items()} | behind_nat).items() if count}


def _deployment_resources(record: Record) -> list[Holding]:
    """Return this deployment's resources: none before it has variables."""
    project = record.variables.get("gcp", {}).get("project")
    return [h for h in owned(Google(), project, record.config["name"]) if h.id == record.id] if project else []


def _resource(holding: Holding) -> Resource:
    alive = holding.kind != "instance" or holding.status in ALIVE
    return Resource(holding.kind, holding.name, holding.key, alive, holding.state_identity)
