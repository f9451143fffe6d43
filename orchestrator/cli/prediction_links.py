"""Source of the link of a prediction: options, else the newest check of the cluster, else a limit of the cloud."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.cli import prediction_sources
from orchestrator.cli.prediction_sources import Overrides
from orchestrator.config import Config, nearest
from orchestrator.errors import ConfigError, OrchestratorError, command
from orchestrator.lazy_imports import LazyModule
from orchestrator.prediction import link_kinds, machine_types
from orchestrator.prediction.cluster_links import LIMITED, Connection
from orchestrator.prediction.link_kinds import Limit, Named
from orchestrator.prediction.single_rank import Node
from orchestrator.runs import prediction_inputs
from orchestrator.runs.prediction_inputs import History, LinkQuery

if TYPE_CHECKING:
    from orchestrator.providers.openstack import bandwidth
else:
    bandwidth = LazyModule("orchestrator.providers.openstack.bandwidth")


def connection(
    config: Config, rank_step: Node, overrides: Overrides, history: History, nodes: int
) -> tuple[Connection, str]:
    """Return the ranks' connection and its source.

    Args:
        config: Configuration of the cluster, with the machine type of the command's options.
        rank_step: One rank's step, which tells whether a GPU computes it.
        overrides: Options of the command.
        history: Runs of the cluster.
        nodes: Most nodes of the prediction.

    Returns:
        The connection, and its source as text.

    Raises:
        ConfigError: The link is unknown, or an option cannot be read.
    """
    if overrides.within not in link_kinds.LOCAL:
        problem = f"--within: {overrides.within!r} is unknown{nearest(overrides.within, list(link_kinds.LOCAL))}"
        raise ConfigError([f"{problem} (known: {', '.join(link_kinds.LOCAL)})"])
    slots = prediction_sources.slots(config, overrides, history)
    local = link_kinds.between_ranks(rank_step.cores, overrides.within)
    if overrides.link is not None:
        named = link_kinds.parse(overrides.link, overrides.latency)
        text = f"{named.rate / 1e9:g} Gbit/s, {named.kind}, as given"
        return _named(named, rank_step, overrides, slots), text
    if overrides.machine_type is None:
        query = LinkQuery(nodes, slots, local, config.launch.controller)
        if measured := _measured(config, overrides, history, query):
            return measured
        if nodes == 1:
            return Connection(local, local, slots), "not needed on one node"
    if config.provider not in LIMITS:
        raise _unknown(config)
    return _limited(config, rank_step, overrides, slots)


def _named(named: Named, rank_step: Node, overrides: Overrides, slots: int) -> Connection:
    link = named.between_cpus(rank_step.cores) if rank_step.cores else named.between_gpus()
    return Connection(link, link_kinds.between_ranks(rank_step.cores, overrides.within), slots)


def _measured(
    config: Config, overrides: Overrides, history: History, query: LinkQuery
) -> tuple[Connection, str] | None:
    measured = prediction_inputs.connection(history, query)
    if overrides.latency is not None and measured:
        problem = "--latency: only with --link or --machine-type: the measurement of `check` includes the latency"
        raise ConfigError([problem])
    return measured


def _limited(config: Config, rank_step: Node, overrides: Overrides, slots: int) -> tuple[Connection, str]:
    """Return the connection by the cloud's limit for the nodes; CPUs of the head are in the ring, and may be slower."""
    limits = LIMITS[config.provider](config, ("worker", "head") if rank_step.cores else ("worker",), overrides)
    slowest = min(limits, key=lambda each: each.rate)
    named = slowest.link(None if overrides.latency is None else link_kinds.seconds(overrides.latency))
    text = f"up to {slowest.rate / 1e9:g} Gbit/s, {slowest.source}; not measured, so the bands are wide"
    return replace(_named(named, rank_step, overrides, slots), unmeasured=LIMITED), text


def _of_machine_types(config: Config, roles: Sequence[str], overrides: Overrides) -> list[Limit]:
    """Return Google's limits, from the table."""
    names = {"--machine-type" if overrides.machine_type else "gcp.machine_type": config.gcp.machine_type}
    if "head" in roles and config.gcp.head_machine_type:
        names["gcp.head_machine_type"] = config.gcp.head_machine_type
    return [machine_types.find(key, name, _remedy(config)).limit for key, name in names.items()]


def _of_flavors(config: Config, roles: Sequence[str], _: Overrides) -> list[Limit]:
    """Return the limits of OpenStack's flavors, which the cloud alone knows."""
    try:
        limits = bandwidth.limits(config, roles)
    except OrchestratorError as error:
        raise _unknown(config, f"its limit is not known: {error.message}") from error
    if not limits:
        raise _unknown(config, f"{config.openstack.flavor} has no bandwidth limit, or none that this account can see")
    return limits


LIMITS: dict[str, Callable[[Config, Sequence[str], Overrides], list[Limit]]] = {
    "gcp": _of_machine_types,
    "openstack": _of_flavors,
}


def _unknown(config: Config, reason: str = "") -> ConfigError:
    problem = f"--link: missing, and no check of cluster {config.name!r} between nodes was fetched"
    reasons = [f"openstack.flavor: {reason}"] if reason else []
    return ConfigError([problem, *reasons], _remedy(config))


def _remedy(config: Config) -> str:
    check = command("check", config.name)
    return f"{check} measures the link between two nodes or more; or name one: --link 10gbit --latency 50us"
