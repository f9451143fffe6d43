"""Nodes that are containers on this machine's Docker Engine."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from orchestrator import build, images, process
from orchestrator.config import LEAST_CPUS, Config, stored
from orchestrator.engine import Engine, Holding
from orchestrator.errors import PreflightError, command, gather
from orchestrator.providers import Resource, capacity, cgroups, grafana
from orchestrator.providers.terraformed import destroy, provision, strays
from orchestrator.state import Home, Record

__all__ = ["destroy", "provision", "strays"]

IMAGE = "node"
SUBNETS = [IPv4Network((0x0AC90000 + (n << 8), 24)) for n in range(256)]  # 10.201.0.0/24 to 10.201.255.0/24
DEFAULT_MTU = 1500
LEAST_QUOTA = (
    1.0  # cores: a smaller share is not enforced, since a node that needs a core for a moment would wait for it
)


def preflight(config: Config, record: Record | None) -> None:
    """Docker answers, the request fits this machine, and the cluster's name and network are free on the engine."""
    docker, ours = Engine(), record.id if record else ""
    remedy = "install Docker's command line client: https://docs.docker.com/engine/install"
    gather(
        lambda: process.require("docker", remedy),
        lambda: _require_free_name(docker, config.name, ours),
        lambda: capacity.require_room(docker, config),
        lambda: _require_inotify(docker, config),
        lambda: _require_free_subnet(docker, config.local.subnet, ours),
    )


def callers(config: Config, record: Record | None) -> list[str]:
    """Nobody outside this machine reaches the nodes."""
    return []


def _require_free_name(docker: Engine, name: str, ours: str) -> None:
    others = [r for r in docker.owned() if r.cluster == name and r.id != ours]
    if others:
        listed = ", ".join(f"{resource.kind} {resource.name}" for resource in others)
        raise PreflightError(
            f"this Docker Engine has a cluster {name!r} of another state directory: {listed}",
            f"choose another name with --cluster; if it is yours, {command('teardown --orphans', name)} removes it",
        )


def _require_inotify(docker: Engine, config: Config) -> None:
    """Ask this machine's kernel, unless the nodes are on another machine's engine."""
    if docker.is_here:
        others = [r for r in docker.owned() if r.kind == "container" and r.running and r.cluster != config.name]
        capacity.require_inotify(config.nodes, len(others))


def _require_free_subnet(docker: Engine, subnet: IPv4Network | None, ours: str) -> None:
    for other in docker.networks() if subnet else []:
        if subnet and other.subnet.overlaps(subnet) and not (ours and other.id == ours):
            raise PreflightError(
                f"local.subnet: {subnet} overlaps {other.subnet} of the Docker network {other.name}",
                "choose another, or leave it out: then a free one is taken",
            )


def variables(config: Config, record: Record) -> dict[str, Any]:
    """The node image, each node's share of this machine, and Grafana's container."""
    docker = Engine()
    memory = config.local.memory or capacity.MEMORY_SHARE * docker.memory / 2**30 / config.nodes
    cpus = config.local.cpus or max(LEAST_CPUS, int(100 * docker.cpus / config.nodes) / 100)
    groups = cgroups.options(docker, config.name)
    return {
        "image": images.tag(IMAGE, config.local.base_image),
        "subnet": str(config.local.subnet or _subnet(docker, config.name, record)),
        "mtu": _mtu(),
        "cpus": cpus,
        "quota": cpus if config.local.cpus or cpus >= LEAST_QUOTA else docker.cpus,
        "memory": int(memory * 2**10),
        "grafana": grafana.variables(docker, config),
        "cgroup_parent": groups.parent,
        "cgroup_volumes": groups.volumes,
    }


def _subnet(docker: Engine, name: str, record: Record) -> IPv4Network:
    """The one of before, unless others were quicker, else a free one."""
    taken = [network.subnet for network in docker.networks() if network.id != record.id]
    before = record.variables.get("local", {}).get("subnet")
    kept = IPv4Network(before) if before else None
    if kept and not any(kept.overlaps(other) for other in taken):
        return kept
    return free_subnet(name, taken)


def accelerated(config: Config, record: Record | None) -> tuple[str | None, str]:
    """Containers use the CPU alone."""
    return None, config.local.base_image


def prepare(record: Record, place: Home) -> None:
    docker = Engine()
    build.ensure(docker, IMAGE, stored(record.config).local.base_image, place.log("image"))
    grafana.prepare(docker, record, place)


def priced(config: Config) -> dict[str, int]:
    return {}


def trainer_digest(record: Record) -> str:
    return images.digest(stored(record.config).local.base_image)


def free_subnet(name: str, taken: list[IPv4Network]) -> IPv4Network:
    """The first free subnet from a place that depends on ``name``: two clusters made at once seldom meet."""
    start = sum(name.encode()) % len(SUBNETS)
    for subnet in SUBNETS[start:] + SUBNETS[:start]:
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise PreflightError("no free network left in 10.201.0.0/16", "set local.subnet to a free one")


def _mtu() -> int:
    """The MTU of the interface with the default route, which packets of the nodes leave by."""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        interface, destination = line.split()[:2]
        if destination == "00000000":
            return int(Path(f"/sys/class/net/{interface}/mtu").read_text())
    return DEFAULT_MTU


def survey(record: Record) -> list[Resource]:
    return [_resource(r) for r in Engine().owned() if r.id == record.id]


def lost(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Everything that is gone or stands still: terraform_data knows nothing of the containers behind it."""
    usable = {resource.name for resource in survey(record) if resource.usable}
    return [address for address, name in recorded.items() if name not in usable]


def faults(record: Record) -> dict[str, str]:
    """The engine says it at once."""
    return {}


def strangers(config: Config) -> list[Resource]:
    return [_resource(r) for r in Engine().owned() if r.cluster == config.name]


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Containers first: networks and volumes are held by them."""
    docker = Engine()
    for resource in sorted(resources, key=lambda r: r.kind):
        docker.remove(resource.kind, resource.key)


def _resource(holding: Holding) -> Resource:
    return Resource(holding.kind, holding.name, holding.key, holding.running, known_as=holding.name)
