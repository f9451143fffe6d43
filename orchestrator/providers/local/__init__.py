"""Provider of nodes that are containers on this machine's Docker Engine."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from orchestrator import state
from orchestrator.config import LEAST_CPUS, Config, stored
from orchestrator.docker import build, cluster_resources, context, images
from orchestrator.docker.cluster_resources import Holding
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError
from orchestrator.providers import Resource, provisioning
from orchestrator.providers.local import capacity, cgroups, grafana, preflight_checks
from orchestrator.providers.provisioning import OnLine, provision, unmanaged
from orchestrator.providers.trainer_image import trainer_digest
from orchestrator.state import Record, StateDir, cluster_lock

__all__ = ["provision", "trainer_digest", "unmanaged"]

IMAGE = "node"
SUBNETS = [IPv4Network((0x0AC90000 + (n << 8), 24)) for n in range(256)]  # 10.201.0.0/24 to 10.201.255.0/24
DEFAULT_MTU = 1500
# Cores: a smaller share is not enforced, since a node that briefly needs a whole core would wait for it.
LEAST_QUOTA = 1.0
WAIT_SECONDS = 3600.0  # for another deploy that builds the image


def preflight(config: Config, record: Record | None) -> None:
    """Check that Docker answers, the nodes fit on this machine, and the cluster's name and network are free."""
    preflight_checks.require(config, record)


def default_allow_from(config: Config, record: Record | None) -> list[str]:
    """Return no network: only this machine can reach the nodes."""
    return []


def variables(config: Config, record: Record) -> dict[str, Any]:
    """Return the node image, each node's share of this machine, and Grafana's container."""
    docker = Engine()
    memory, head_memory = capacity.memory(docker, config)
    cpus = config.local.cpus or max(LEAST_CPUS, int(100 * docker.cpus / config.nodes) / 100)
    groups = cgroups.options(docker, config.name)
    return {
        "image": context.tag(IMAGE, context.variant(config)),
        "subnet": str(config.local.subnet or _subnet(docker, config.name, record)),
        "mtu": _mtu(),
        "cpus": cpus,
        "quota": cpus if config.local.cpus or cpus >= LEAST_QUOTA else docker.cpus,
        "memory": memory,
        "head_memory": head_memory,
        "grafana": grafana.variables(docker, config),
        "cgroup_parent": groups.parent,
        "cgroup_volumes": groups.volumes,
        "engine": docker.identity,  # for `require_same_engine`
    }


def _subnet(docker: Engine, name: str, record: Record) -> IPv4Network:
    """Return the previous subnet if it is still free, else another free one."""
    taken = [network.subnet for network in cluster_resources.networks(docker) if network.id != record.id]
    before = record.variables.get("local", {}).get("subnet")
    subnet = IPv4Network(before) if before else None
    if subnet and not any(subnet.overlaps(other) for other in taken):
        return subnet
    return free_subnet(name, taken)


def gpu_and_image(config: Config, record: Record | None) -> tuple[str | None, str]:
    """Return no GPU and the base image: containers use only the CPU."""
    return None, config.local.base_image


def prepare(record: Record, state_dir: StateDir) -> None:
    """Build the node image, and prepare Grafana's container."""
    docker = Engine()
    variant = context.variant(stored(record.config))
    if not images.find(docker, context.tag(IMAGE, variant)):
        lock = state.cache() / "images" / "lock-of-nodes"
        with cluster_lock.waited(lock, "builds the nodes' image", WAIT_SECONDS, "XDG_CACHE_HOME"):
            build.ensure(docker, IMAGE, variant, state_dir.log("image"))
    grafana.prepare(docker, record, state_dir)


def priced(config: Config) -> dict[str, int]:
    """Return nothing: local nodes have no price."""
    return {}


def free_subnet(name: str, taken: list[IPv4Network]) -> IPv4Network:
    """Return the first free subnet, starting at a position derived from ``name``: concurrent deploys seldom collide."""
    start = sum(name.encode()) % len(SUBNETS)
    for subnet in SUBNETS[start:] + SUBNETS[:start]:
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise PreflightError("no free network left in 10.201.0.0/16", "set local.subnet to a free one")


def _mtu() -> int:
    """Return the MTU of the interface with the default route, through which packets of the nodes leave."""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        interface, destination = line.split()[:2]
        if destination == "00000000":
            return int(Path(f"/sys/class/net/{interface}/mtu").read_text())
    return DEFAULT_MTU


def destroy(state_dir: StateDir, record: Record, on_line: OnLine) -> None:
    """Destroy the cluster's resources, and remove its control group.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the deployment.
        on_line: Receives lines of progress.
    """
    provisioning.destroy(state_dir, record, on_line)
    cgroups.remove(Engine(), state_dir.name)


def list_resources(record: Record) -> list[Resource]:
    """Return every resource of this deployment on the engine. Raises PreflightError if it was made on another."""
    docker = Engine()
    preflight_checks.require_same_engine(docker, record)
    return [_resource(r) for r in cluster_resources.owned(docker) if r.id == record.id]


def to_replace(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Return the addresses of missing and stopped resources: terraform_data does not track the containers behind it."""
    usable = {resource.name for resource in list_resources(record) if resource.usable}
    return [address for address, name in recorded.items() if name not in usable]


def failure_reasons(record: Record) -> dict[str, str]:
    """Return nothing: the engine reports errors at once."""
    return {}


def unowned_resources(config: Config) -> list[Resource]:
    """Return every resource on the engine with the cluster's name, of any deployment."""
    return [_resource(r) for r in cluster_resources.owned(Engine()) if r.cluster == config.name]


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Remove containers first: they hold networks and volumes."""
    docker = Engine()
    for resource in sorted(resources, key=lambda r: r.kind):
        cluster_resources.remove(docker, resource.kind, resource.key)


def _resource(holding: Holding) -> Resource:
    return Resource(holding.kind, holding.name, holding.key, holding.running, state_identity=holding.name)
