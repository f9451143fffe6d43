"""Check that Docker answers, the nodes fit on this machine, and the cluster's name and network are free."""

from ipaddress import IPv4Network

from orchestrator import process, progress
from orchestrator.config import Config
from orchestrator.docker import cluster_resources
from orchestrator.docker.cluster_resources import Holding
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError, command, gather
from orchestrator.providers import provisioning
from orchestrator.providers.local import capacity
from orchestrator.state import Record


def require(config: Config, record: Record | None) -> None:
    """Raise PreflightError if a check fails; note other local clusters, which share this machine."""
    docker, deployment = Engine(), record.id if record else ""
    remedy = "install Docker's command line client: https://docs.docker.com/engine/install"
    gather(
        lambda: process.require("docker", remedy),
        lambda: require_same_engine(docker, record),
        lambda: _require_reachable_networks(docker),
        lambda: _require_free_name(docker, config, deployment),
        lambda: capacity.require_room(docker, config),
        lambda: _require_inotify(docker, config),
        lambda: _require_free_subnet(docker, config.local.subnet, deployment),
    )
    _note_other_clusters(docker, config)


def require_same_engine(docker: Engine, record: Record | None) -> None:
    """Check that ``docker`` is the engine that has the cluster, on which nothing of it would be found otherwise.

    The home directory may be on several machines, and DOCKER_HOST and DOCKER_CONTEXT may change.

    Raises:
        PreflightError: It is another engine of another machine.
    """
    engine, here = record.variables.get("local", {}).get("engine") if record else None, docker.identity
    if record and isinstance(engine, dict) and all(engine.get(key) != here[key] for key in here):
        name, machine = record.config["name"], engine.get("machine")
        raise PreflightError(
            f"cluster {name!r} is on the Docker Engine of machine {machine}, not on that of {here['machine']} "
            f"({docker.host})",
            f"work on {machine}, or set DOCKER_HOST or DOCKER_CONTEXT as for its deploy; if that engine is gone: "
            f"{command('teardown --forget', name)}",
        )


def _require_reachable_networks(docker: Engine) -> None:
    if docker.isolation:
        raise PreflightError(
            f"Docker at {docker.host} cannot have nodes: {docker.isolation}, so ssh would not reach them",
            "use an engine of root on this machine: `sudo apt install docker.io`, then `docker context use default`",
        )


def _require_free_name(docker: Engine, config: Config, deployment: str) -> None:
    others = [r for r in cluster_resources.owned(docker) if r.cluster == config.name and r.id != deployment]
    provisioning.require_free_name(config, "this Docker Engine", [f"{other.kind} {other.name}" for other in others])


def _nodes_of_others(docker: Engine, config: Config) -> list[Holding]:
    return [
        r for r in cluster_resources.owned(docker) if r.kind == "container" and r.running and r.cluster != config.name
    ]


def _note_other_clusters(docker: Engine, config: Config) -> None:
    """Say that other clusters use this machine too, if this one would take all of it."""
    others = sorted({node.cluster for node in _nodes_of_others(docker, config)})
    if others and not (config.local.cpus and config.local.memory):
        progress.note(
            f"{', '.join(others)}: local clusters on this machine too, and each takes all cores and "
            f"{capacity.MEMORY_SHARE:.0%} of the memory: divide them with --cpus and --memory, each per node"
        )


def _require_inotify(docker: Engine, config: Config) -> None:
    """Check this machine's kernel, unless the nodes are on another machine's engine."""
    if docker.is_local:
        capacity.require_inotify(config.nodes, len(_nodes_of_others(docker, config)))


def _require_free_subnet(docker: Engine, subnet: IPv4Network | None, deployment: str) -> None:
    for other in cluster_resources.networks(docker) if subnet else []:
        if subnet and other.subnet.overlaps(subnet) and not (deployment and other.id == deployment):
            raise PreflightError(
                f"local.subnet: {subnet} overlaps {other.subnet} of the Docker network {other.name}",
                "choose another, or leave it out: then a free one is taken",
            )
