"""Nodes that are instances of Google Compute Engine."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator import process
from orchestrator.config import Config
from orchestrator.google import Google
from orchestrator.google.holdings import Holding, owned
from orchestrator.google.removal import remove as remove_all
from orchestrator.providers import Resource
from orchestrator.providers.access import caller_addresses
from orchestrator.providers.gcp import preflight as checks
from orchestrator.providers.gcp.site import WITH_ADDED_GPUS, Site, family
from orchestrator.providers.machines import prepare, trainer_digest
from orchestrator.providers.terraformed import destroy, provision, strays
from orchestrator.state import Record

__all__ = ["destroy", "prepare", "provision", "strays", "trainer_digest"]

ALIVE = ("PROVISIONING", "STAGING", "RUNNING", "REPAIRING")
ON_THE_WAY = ("STOPPING", "SUSPENDING", "PENDING_STOP", "DEPROVISIONING")
SETTLE_SECONDS, LOOK_SECONDS = 180.0, 2.0
NEAR = "compute.googleapis.com"


def preflight(config: Config, record: Record | None) -> None:
    """Credentials work, what is asked for exists and fits together, and the quotas are large enough."""
    if config.gcp.iap:
        process.require("gcloud", "with gcp.iap it opens the way: https://cloud.google.com/sdk/docs/install")
    checks.require(Site(config, record))


def callers(config: Config, record: Record | None) -> list[str]:
    """How Google sees this machine; behind Identity-Aware Proxy nobody comes straight."""
    return [] if config.gcp.iap else caller_addresses([NEAR])


def variables(config: Config, record: Record) -> dict[str, Any]:
    """Names turned into links. The image stays the one that the nodes were made of as long as its name is asked for."""
    site = Site(config, record)
    return {
        "project": site.project,
        "region": site.region,
        "zone": site.wanted.zone,
        "image": site.image["selfLink"] if site.image else site.pinned,
        "head": site.shape("head"),
        "worker": site.shape("worker"),
        "disk_size": site.wanted.disk_size,
        "disk_type": site.wanted.disk_type,
        "spot": site.wanted.spot,
        "compact": site.wanted.compact,
        "subnet": str(site.wanted.subnet),
        "iap": site.wanted.iap,
    }


def accelerated(config: Config, record: Record | None) -> tuple[str | None, str]:
    """The workers' GPUs, else the head's."""
    site = Site(config, record)
    shapes = [site.shape(role) for role in ("worker", "head")]
    return next((shape["accelerator"] for shape in shapes if shape["gpus"]), None), config.gcp.image


def survey(record: Record) -> list[Resource]:
    """By label, and by description where there are no labels."""
    return [_resource(holding) for holding in _ours(record)]


def faults(record: Record) -> dict[str, str]:
    """Google gives its reason with the operation that failed, and Terraform passes it on."""
    return {}


def strangers(config: Config) -> list[Resource]:
    return [_resource(holding) for holding in Site(config).owned]


def lost(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Instances without a disk to start from. What else stands still (spot instances that Google took back, instances
    stopped by hand) Terraform starts again, with all that is on its disk, once it has come to a stop.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        instances = {h.key: h for h in _ours(record) if h.kind == "instance"}
        if time.monotonic() > deadline or not any(h.status in ON_THE_WAY for h in instances.values()):
            break
        time.sleep(LOOK_SECONDS)
    broken = {key for key, instance in instances.items() if not instance.bootable}
    return [address for address, identity in recorded.items() if identity in broken]


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Their keys are paths with the project in them; what is gone already is fine."""
    things = [(resource.kind, resource.key) for resource in resources]
    if things:
        remove_all(Google(), things)


def priced(config: Config) -> dict[str, int]:
    """By the names of Google's price list; what Google takes back at will is priced apart."""
    gcp, found = config.gcp, Counter[str]()
    types = [gcp.head_machine_type or gcp.machine_type, *[gcp.machine_type] * (config.nodes - 1)]
    for machine_type in types:
        found[machine_type] += 1
        if gcp.accelerator and family(machine_type) == WITH_ADDED_GPUS:
            found[gcp.accelerator] += gcp.accelerators
    found["external address"] += 0 if gcp.iap else 1
    sale = " spot" if gcp.spot else ""
    behind_nat = {"Cloud NAT": config.nodes - found["external address"]}
    return {name: count for name, count in ({f"{n}{sale}": c for n, c in found.items()} | behind_nat).items() if count}


def _ours(record: Record) -> list[Holding]:
    """Nothing was made before there were variables."""
    project = record.variables.get("gcp", {}).get("project")
    return [h for h in owned(Google(), project, record.config["name"]) if h.id == record.id] if project else []


def _resource(holding: Holding) -> Resource:
    alive = holding.kind != "instance" or holding.status in ALIVE
    return Resource(holding.kind, holding.name, holding.key, alive, holding.known_as)
