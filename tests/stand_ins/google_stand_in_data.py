"""Initial data of the stand-in for Google's API: one project, one zone, a few machine types, and quotas."""

from typing import Any

LINK = "https://www.googleapis.com/compute/v1/"
PROJECT, REGION, ZONE = "demo-project", "europe-west4", "europe-west4-a"
HERE = f"projects/{PROJECT}"
IMAGE = "projects/debian-cloud/global/images/debian-12-bookworm-v20261010"
Item = dict[str, Any]
Answer = tuple[int, Item]

GPUS, DISK_TYPES = ("nvidia-tesla-t4", "nvidia-l4"), ("pd-balanced", "pd-ssd", "hyperdisk-balanced")
MACHINES: dict[str, Item] = {
    "n1-standard-8": {"guestCpus": 8, "architecture": "X86_64"},
    "n2-standard-8": {"guestCpus": 8, "architecture": "X86_64"},
    "e2-standard-4": {"guestCpus": 4, "architecture": "X86_64"},
    "t2a-standard-4": {"guestCpus": 4, "architecture": "ARM64"},
    "g2-standard-8": {
        "guestCpus": 8,
        "accelerators": [{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}],
    },
}
QUOTAS = {"CPUS": (64, 16), "N2_CPUS": (64, 8), "INSTANCES": (100, 3), "SSD_TOTAL_GB": (2048, 100)}
QUOTAS |= {"IN_USE_ADDRESSES": (8, 1), "STATIC_ADDRESSES": (8, 1), "NVIDIA_T4_GPUS": (4, 0)}
QUOTAS |= {"PREEMPTIBLE_CPUS": (0, 0), "PREEMPTIBLE_NVIDIA_T4_GPUS": (1, 0)}
OF_THE_PROJECT = {"NETWORKS": (5, 1), "SUBNETWORKS": (100, 1), "ROUTERS": (10, 0), "FIREWALLS": (100, 4)}
OF_THE_PROJECT |= {"CPUS_ALL_REGIONS": (128, 16), "GPUS_ALL_REGIONS": (4, 0), "STATIC_ADDRESSES": (0, 0)}


def quotas(limits: dict[str, tuple[int, int]]) -> list[Item]:
    return [{"metric": metric, "limit": limit, "usage": used} for metric, (limit, used) in limits.items()]


def refusal(status: int, message: str, reason: str) -> Answer:
    return status, {"error": {"code": status, "message": message, "errors": [{"message": message, "reason": reason}]}}


NOT_FOUND = refusal(404, "The resource was not found", "notFound")
COLLECTIONS: tuple[str, ...] = (
    "zones",
    "acceleratorTypes",
    "diskTypes",
    "instances",
    "disks",
    "addresses",
    "resourcePolicies",
    "routers",
)
COLLECTIONS += ("subnetworks", "firewalls", "networks")


def begin() -> dict[str, Item]:
    """Return the initial items by path."""
    return {
        HERE: {"quotas": quotas(OF_THE_PROJECT)},
        f"{HERE}/regions/{REGION}": {"quotas": quotas(QUOTAS)},
        f"{HERE}/zones/{ZONE}": {"status": "UP", "region": f"{LINK}{HERE}/regions/{REGION}"},
        IMAGE: {"family": "debian-12", "diskSizeGb": "10", "status": "READY", "architecture": "X86_64"},
        **{f"{HERE}/zones/{ZONE}/machineTypes/{name}": values for name, values in MACHINES.items()},
        **{f"{HERE}/zones/{ZONE}/acceleratorTypes/{name}": {"maximumCardsPerInstance": 4} for name in GPUS},
        **{f"{HERE}/zones/{ZONE}/diskTypes/{name}": {} for name in DISK_TYPES},
    }
