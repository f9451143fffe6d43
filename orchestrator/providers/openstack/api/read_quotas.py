"""Quotas of the project: the limit and the use of each resource."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from openstack.exceptions import ForbiddenException, NotFoundException, raise_from_response

from orchestrator.providers.openstack.api.connection import Cloud, asking

# Name here -> Nova's names of the limit and of the use.
_COMPUTE = {
    "instance": ("maxTotalInstances", "totalInstancesUsed"),
    "core": ("maxTotalCores", "totalCoresUsed"),
    "RAM": ("maxTotalRAMSize", "totalRAMUsed"),
    "server group": ("maxServerGroups", "totalServerGroupsUsed"),
}
_VOLUMES = {
    "volume": ("maxTotalVolumes", "totalVolumesUsed"),
    "volume storage": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
}
# Name here -> Neutron's name.
_NETWORK = {
    "floating IP": "floatingip",
    "port": "port",
    "security group": "security_group",
    "security group rule": "security_group_rule",
    "network": "network",
    "subnet": "subnet",
    "router": "router",
}


@dataclass(frozen=True)
class Quota:
    """Limit and use of a resource: RAM in MiB, volume storage in GiB. ``limit`` None means unlimited."""

    limit: int | None
    used: int

    @property
    def free(self) -> float:
        """Return how much is not in use."""
        return float("inf") if self.limit is None else max(0, self.limit - self.used)


def quotas(cloud: Cloud, volumes: bool = False) -> dict[str, Quota]:
    """Return the quotas by name, without those that the site hides from its users."""
    parts = [_compute, _network, *([_volumes] if volumes else [])]
    return {name: quota for part in parts for name, quota in _visible(part, cloud)}


def _visible(part: Callable[[Cloud], Iterator[tuple[str, Quota]]], cloud: Cloud) -> Iterator[tuple[str, Quota]]:
    with asking("ask for quotas", "quota", "show", "--usage"):
        try:
            yield from part(cloud)
        except (ForbiddenException, NotFoundException):
            return


def _compute(cloud: Cloud) -> Iterator[tuple[str, Quota]]:
    compute = cloud.connection.compute
    limits = _body(compute, "/limits")["limits"]["absolute"]
    yield from _absolute(_COMPUTE, limits)
    if "maxTotalKeypairs" in limits:  # Nova does not report their use
        yield "key pair", _quota(limits["maxTotalKeypairs"], sum(1 for _ in compute.keypairs()))
    if "maxServerGroupMembers" in limits:
        yield "server group member", _quota(limits["maxServerGroupMembers"], 0)


def _network(cloud: Cloud) -> Iterator[tuple[str, Quota]]:
    limits = _body(cloud.connection.network, f"/quotas/{cloud.project}/details.json")["quota"]
    for name, word in _NETWORK.items():
        if word in limits:
            yield name, _quota(limits[word]["limit"], int(limits[word]["used"]) + int(limits[word].get("reserved", 0)))


def _volumes(cloud: Cloud) -> Iterator[tuple[str, Quota]]:
    yield from _absolute(_VOLUMES, _body(cloud.connection.block_storage, "/limits")["limits"]["absolute"])


def _absolute(words: dict[str, tuple[str, str]], limits: dict[str, int]) -> Iterator[tuple[str, Quota]]:
    for name, (limit, used) in words.items():
        if limit in limits:
            yield name, _quota(limits[limit], limits.get(used, 0))


def _quota(limit: int, used: int) -> Quota:
    return Quota(None if limit < 0 else limit, used)


def _body(service: Any, path: str) -> dict[str, Any]:
    answer = service.get(path)
    raise_from_response(answer)
    return dict(answer.json())
