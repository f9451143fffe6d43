"""Check that the project's quotas allow the nodes; resources of this deployment are part of the quotas' use."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from orchestrator.errors import PreflightError
from orchestrator.providers.openstack.api.catalogue import has_volumes
from orchestrator.providers.openstack.api.read_quotas import Quota, quotas
from orchestrator.providers.openstack.cloud_objects import Site
from orchestrator.providers.quota_comparison import Need, require_enough

RULES = 4  # of the security group: outgoing and among the nodes; one more for each network that may connect
FLAVORED = ("core", "RAM")
UNITS = {"RAM": (1024, " GiB"), "volume storage": (1, " GiB")}
GROWING = {**dict.fromkeys(FLAVORED, "openstack.flavor"), "volume storage": "openstack.volume_size"}
# By exhausted quota: how to avoid the resource.
WITHOUT = {"floating IP": "set openstack.floating_ip: false", "network": "name an existing one with openstack.network"}
WITHOUT |= dict.fromkeys(("router", "subnet"), WITHOUT["network"]) | {
    "server group": "leave openstack.server_group out"
}


def require(site: Site) -> None:
    """Raise PreflightError with every quota that is too small, and how many nodes fit."""
    limits = quotas(site.cloud, volumes=bool(site.settings.volume_size) and has_volumes(site.cloud))
    require_enough(limits, needs(site), site.config.nodes, partial(_refuse, site))


def _refuse(site: Site, name: str, quota: Quota, need: Need, fewer: int) -> None:
    size, unit = UNITS.get(name, (1, ""))
    fit, nodes = need.fits(quota.free), site.config.nodes
    limit, used, total = (f"{number / size:.10g}" for number in (quota.limit or 0, quota.used, need.sum))
    remedies = ["ask the site for more quota", *([f"`--nodes {fewer}`"] if fewer else [])]
    remedies += [WITHOUT[name]] if fit is None and name in WITHOUT else []
    remedies += ["a smaller flavor"] if name in FLAVORED else []
    what = f"{present(site) + (fit or 0)} of {nodes} nodes fit"
    if name in GROWING and need.once and fit is None:
        what, remedies = f"{GROWING[name]}: the existing nodes cannot grow", [remedies[0], "a smaller one"]
    raise PreflightError(
        f"{what}: {name} quota {limit}{unit}, in use {used}, needed {total}",
        ", or ".join(remedies),
    )


def present(site: Site) -> int:
    """Return the number of existing nodes."""
    return site.config.nodes - len(site.missing)


def needs(site: Site) -> dict[str, Need]:
    """Return what is still needed, by the quota's name."""
    return {**dict(_per_node(site)), **dict(_once(site))}


def _to_make(site: Site, kind: str) -> list[int]:
    """Return 1 for each missing node, 0 if one without a server is left over: Terraform uses it or removes it first."""
    spare = sum(holding.kind == kind for holding in site.deployment_resources) - len(site.servers)
    return [int(number >= spare) for number in range(len(site.missing))]


def _per_node(site: Site) -> Iterator[tuple[str, Need]]:
    ones = [1] * len(site.missing)
    yield "instance", Need(0, ones)
    flavors = [site.existing_flavors.get("head" if name.endswith("-head") else "worker") for name in site.missing]
    existing = [flavor for flavor in flavors if flavor]
    if len(existing) == len(flavors):
        cores, memory = _growth(site)
        yield "core", Need(cores, [flavor.cpus for flavor in existing])
        yield "RAM", Need(memory, [flavor.memory for flavor in existing])
    if site.settings.volume_size:
        volumes = _to_make(site, "volume")
        yield "volume", Need(0, volumes)
        more = sum(max(0, site.settings.volume_size - volume.size) for volume in site.volumes if volume.size)
        yield "volume storage", Need(more, [site.settings.volume_size * count for count in volumes])
    if site.settings.server_group:
        yield "server group member", Need(present(site), ones)


def _growth(site: Site) -> tuple[int, int]:
    """Return how many cores and MiB another flavor of the existing nodes needs more than theirs.

    After a deploy that ended early it is not known which nodes have which flavor.
    """
    more = [(0, 0)]
    for name in site.names if site.record and site.record.is_applied else ():
        role = "head" if name.endswith("-head") else "worker"
        new, old = site.existing_flavors.get(role), site.applied_flavor(role)
        if name in site.servers and new and old:
            more.append((new.cpus - old.cpus, new.memory - old.memory))
    cores, memory = (max(0, sum(amounts)) for amounts in zip(*more, strict=True))
    return cores, memory


def _once(site: Site) -> Iterator[tuple[str, Need]]:
    held = Counter(holding.kind for holding in site.deployment_resources)
    makes_network = not site.settings.network and not held["network"]
    lacking = {
        "key pair": not held["keypair"],
        "security group": not held["security-group"],
        "floating IP": site.settings.floating_ip and not held["floating-ip"],
        "server group": bool(site.settings.server_group) and not held["server-group"],
        "network": makes_network,
        "subnet": not site.settings.network and not held["subnet"],
        "router": not site.settings.network and not held["router"],
    }
    yield from ((name, Need(int(needed), [])) for name, needed in lacking.items())
    rules = 0 if held["security-group"] else RULES + max(1, len(set(site.config.allow_from or ())))
    yield "security group rule", Need(rules, [])
    # A new network has a port for its router and one for DHCP.
    yield "port", Need(2 if makes_network else 0, _to_make(site, "port"))
