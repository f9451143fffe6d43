"""Resources of clusters in a project, found by label, or by description if labels need a second call or are missing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

from orchestrator.providers.gcp.api.client import Document, Google, path_of, together

CLUSTER_LABEL, ID_LABEL = "orchestrator_cluster", "orchestrator_id"
_TAG = re.compile(r"orchestrator:(?P<cluster>[a-z0-9-]+):(?P<id>[0-9a-f]{8})")
COLLECTIONS = {  # of zones and regions, by kind
    "instance": "instances",
    "disk": "disks",
    "address": "addresses",
    "placement-policy": "resourcePolicies",
    "router": "routers",
    "subnet": "subnetworks",
}
GLOBAL = {"firewall": "firewalls", "network": "networks"}
MANY = ("instance", "disk")  # a project may have thousands of them: Google filters them by label


@dataclass(frozen=True)
class Holding:
    """Resource of deployment ``id`` of ``cluster``.

    ``key`` is its path, ``state_identity`` its identity in Terraform's state if that is different. ``status`` is
    Google's, of instances only; ``bootable`` is False for an instance without a disk to start from.
    """

    kind: str
    name: str
    key: str
    cluster: str
    id: str
    state_identity: str = ""
    status: str = ""
    bootable: bool = True


def owner(item: Mapping[str, object]) -> tuple[str, str] | None:
    """Return cluster and id of the deployment that owns a resource. Labels take precedence over descriptions."""
    labels = item.get("labels")
    if isinstance(labels, Mapping) and CLUSTER_LABEL in labels:
        return str(labels[CLUSTER_LABEL]), str(labels.get(ID_LABEL, ""))
    tag = _TAG.fullmatch(str(item.get("description") or item.get("displayName") or ""))
    return (tag["cluster"], tag["id"]) if tag else None


def owned(google: Google, project: str, cluster: str) -> list[Holding]:
    """Return all resources of clusters of this name, from any state directory.

    Args:
        google: The client.
        project: Name of the project.
        cluster: Name of the cluster.

    Returns:
        The resources.
    """
    listings = [partial(_of_compute, google, project, cluster, kind) for kind in (*COLLECTIONS, *GLOBAL)]
    holdings = together(*listings, partial(_accounts, google, project))
    return [holding for holding in chain.from_iterable(holdings) if holding.cluster == cluster]


def _of_compute(google: Google, project: str, cluster: str, kind: str) -> list[Holding]:
    picked = {"filter": f"labels.{CLUSTER_LABEL}={cluster}"} if kind in MANY else {}
    if kind in GLOBAL:
        items = google.items(f"projects/{project}/global/{GLOBAL[kind]}")
    else:
        items = google.everywhere(project, COLLECTIONS[kind], picked)
    return [holding for item in items for holding in _holdings(kind, item)]


def _holdings(kind: str, item: Document) -> Iterator[Holding]:
    whose, key = owner(item), path_of(item["selfLink"])
    if not whose:
        return
    bootable = any(disk.get("boot") for disk in item.get("disks", [])) or kind != "instance"
    yield Holding(kind, item["name"], key, *whose, _state_identity(kind, item), item.get("status", ""), bootable)
    for nat in item.get("nats", []) if kind == "router" else ():
        project, region, router = key.split("/")[1::2]
        state_identity = f"{project}/{region}/{router}/{nat['name']}"
        yield Holding("nat", nat["name"], f"{key}/nats/{nat['name']}", *whose, state_identity)


def _state_identity(kind: str, item: Document) -> str:
    """Return the instance of an attached boot disk, a part of it to Terraform. Detached disks were left behind."""
    return path_of(item["users"][0]) if kind == "disk" and item.get("users") else ""


def _accounts(google: Google, project: str) -> list[Holding]:
    pages = google.pages(f"projects/{project}/serviceAccounts", "iam", {"pageSize": "100"})
    accounts = [account for page in pages for account in page.get("accounts", [])]
    return [
        Holding("service-account", account["email"].partition("@")[0], account["name"], *whose)
        for account in accounts
        if (whose := owner(account))
    ]
