"""Check that the quotas of the project and its region allow the nodes; resources of this deployment use them too."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from orchestrator import progress
from orchestrator.errors import PreflightError
from orchestrator.providers.gcp.api.read_quotas import Quota, quotas
from orchestrator.providers.gcp.cloud_objects import Site, family
from orchestrator.providers.quota_comparison import Need, require_enough

SHARED_CPUS = ("e2", "f1", "g1", "n1")  # families that share the quota CPUS; every other family has its own
DISKS = {
    "pd-standard": "DISKS_TOTAL_GB",
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "hyperdisk-balanced": "HDB_TOTAL_GB",
}
ONCE = {"network": "NETWORKS", "subnet": "SUBNETWORKS", "router": "ROUTERS", "address": "STATIC_ADDRESSES"}
FIREWALLS = 2
PAGE = "https://console.cloud.google.com/iam-admin/quotas?project="


def require(site: Site) -> None:
    """Raise PreflightError with every quota that is too small, and how many nodes fit."""
    limits = quotas(site.google, site.project, site.region)
    needed = needs(site, limits)
    for metric in needed:
        if metric.startswith("NVIDIA_") and metric not in limits:  # projects that never asked for such GPUs
            progress.note(f"quota {metric} is not listed by Google: it may be 0: {PAGE}{site.project}")
    require_enough(limits, needed, site.config.nodes, partial(_refuse, site))


def _refuse(site: Site, metric: str, quota: Quota, need: Need, fewest: int) -> None:
    fewer = f"`--nodes {fewest}`, or " if fewest else ""
    nodes = site.config.nodes
    raise PreflightError(
        f"{need.fitting(quota.free, nodes)} of {nodes} nodes fit: {metric} quota of {quota.where} "
        f"{quota.limit:g}, in use {quota.used:g}, needed {need.sum:g}",
        f"{fewer}ask for more: {PAGE}{site.project}",
    )


def needs(site: Site, limits: Mapping[str, Quota]) -> dict[str, Need]:
    """Return what is still needed, by the quota's name. A node that does not run needs its cores again."""
    absent = [name for name in site.names if name not in site.instances]
    idle = [name for name in site.names if name in absent or site.instances[name].status != "RUNNING"]
    needed = {"INSTANCES": Need(0, [1.0] * len(absent))}
    if site.settings.disk_type in DISKS:
        needed[DISKS[site.settings.disk_type]] = Need(0, [float(site.settings.disk_size)] * len(absent))
    takes = [_takes(site, _role(name), limits) for name in idle if _role(name) in site.existing_machine_types]
    for metric in sorted({metric for amounts in takes if len(takes) == len(idle) for metric in amounts}):
        needed[metric] = Need(0, [float(amounts.get(metric, 0)) for amounts in takes])
    return needed | {metric: Need(once, [0.0] * len(absent)) for metric, once in _once(site)}


def _role(name: str) -> str:
    return "head" if name.endswith("-head") else "worker"


def _takes(site: Site, role: str, limits: Mapping[str, Quota]) -> dict[str, int]:
    """Return what one running node uses, by the quota's name."""
    shape: Mapping[str, Any] = site.shape(role)
    spot = site.settings.spot
    cpus, gpus = cpu_metric(shape["machine_type"], spot, limits), gpu_metric(shape["accelerator"], spot, limits)
    taken = {cpus: shape["cpus"], **({gpus: shape["gpus"], "GPUS_ALL_REGIONS": shape["gpus"]} if gpus else {})}
    if cpus != "PREEMPTIBLE_CPUS":
        taken["CPUS_ALL_REGIONS"] = shape["cpus"]
    return taken | ({"IN_USE_ADDRESSES": 1} if role == "head" and not site.settings.iap else {})


def _once(site: Site) -> Iterator[tuple[str, float]]:
    held = Counter(holding.kind for holding in site.deployment_resources)
    for kind, metric in ONCE.items():
        if not held[kind] and not (kind == "address" and site.settings.iap):
            yield metric, 1
    yield "FIREWALLS", max(0, FIREWALLS - held["firewall"])


def cpu_metric(machine_type: str, spot: bool, limits: Mapping[str, Quota]) -> str:
    """Return the name of the quota of a machine type's cores.

    Args:
        machine_type: Name of the machine type.
        spot: Whether the instances are spot instances.
        limits: Quotas by name.

    Returns:
        The name of the quota, such as CPUS.
    """
    kind = family(machine_type)
    return _spot("CPUS" if kind in SHARED_CPUS else f"{kind.upper()}_CPUS", "PREEMPTIBLE_CPUS", spot, limits)


def gpu_metric(accelerator: str | None, spot: bool, limits: Mapping[str, Quota]) -> str | None:
    """Return the name of the quota of a GPU type.

    Args:
        accelerator: Google's name of the GPU type, such as nvidia-tesla-t4; None without GPUs.
        spot: Whether the instances are spot instances.
        limits: Quotas by name.

    Returns:
        The name of the quota, such as NVIDIA_T4_GPUS; None without GPUs.
    """
    if accelerator is None:
        return None
    model = accelerator.removeprefix("nvidia-").removeprefix("tesla-")
    if model != "a100-80gb":  # the only model whose quota has the memory in its name
        model = re.sub(r"-[0-9]+gb$", "", model)
    metric = f"NVIDIA_{model.upper().replace('-', '_')}_GPUS"
    return _spot(metric, f"PREEMPTIBLE_{metric}", spot, limits)


def _spot(standard: str, preemptible: str, spot: bool, limits: Mapping[str, Quota]) -> str:
    """Return the quota of spot instances if there is one, else the standard quota."""
    spot_quota = limits.get(preemptible)
    return preemptible if spot and spot_quota and spot_quota.limit > 0 else standard
