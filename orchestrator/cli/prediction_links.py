"""Source of the link of a prediction: options, else the newest check of the cluster, else a limit of the cloud."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.cli.prediction_sources import Given
from orchestrator.config import Config, nearest
from orchestrator.errors import ConfigError, OrchestratorError, command
from orchestrator.lazy_imports import LazyModule
from orchestrator.prediction import link_kinds, machine_types
from orchestrator.prediction.cluster_links import LIMITED, Connection
from orchestrator.prediction.link_kinds import Limit, Named
from orchestrator.prediction.single_rank import Node
from orchestrator.runs import predictions
from orchestrator.runs.predictions import History

if TYPE_CHECKING:
    from orchestrator.providers.openstack import bandwidth
else:
    bandwidth = LazyModule("orchestrator.providers.openstack.bandwidth")


def connection(config: Config, rank_step: Node, given: Given, history: History) -> tuple[Connection, str]:
    """Return the ranks' connection and what it is known from.

    Args:
        config: The cluster's, with the machine type that is given.
        rank_step: One rank's step: whether a GPU computes it.
        given: Options of the command.
        history: Runs of the cluster.

    Returns:
        The connection, and its source as text.

    Raises:
        ConfigError: Nothing tells the link, or it cannot be read.
    """
    if given.within not in link_kinds.LOCAL:
        problem = f"--within: {given.within!r} is unknown{nearest(given.within, list(link_kinds.LOCAL))}"
        raise ConfigError([f"{problem} (known: {', '.join(link_kinds.LOCAL)})"])
    if given.link is not None:
        named = link_kinds.parse(given.link, given.latency)
        text = f"{named.rate / 1e9:g} Gbit/s, {named.kind}, as given"
        return _named(config, named, rank_step, given), text
    if given.machine_type is None and (measured := _measured(config, given, history)):
        return measured
    if config.provider not in LIMITS:
        raise _unknown(config)
    return _limited(config, rank_step, given)


def _named(config: Config, named: Named, rank_step: Node, given: Given) -> Connection:
    if rank_step.cores:
        return Connection(named.between_cpus(rank_step.cores), link_kinds.LOOPBACK, _slots(config))
    return Connection(named.between_gpus(), link_kinds.within_node(given.within), _slots(config))


def _slots(config: Config) -> int:
    """Return the ranks of a node."""
    return config.slots or machine_types.ranks(config)


def _measured(config: Config, given: Given, history: History) -> tuple[Connection, str] | None:
    if given.latency:
        problem = "--latency: only with --link or --machine-type: the measurement of `check` includes the latency"
        raise ConfigError([problem])
    return predictions.connection(history, _slots(config), config.launch.controller)


def _limited(config: Config, rank_step: Node, given: Given) -> tuple[Connection, str]:
    """Return the connection by the cloud's limit for the nodes; CPUs of the head are in the ring, and may be slower."""
    limits = LIMITS[config.provider](config, ("worker", "head") if rank_step.cores else ("worker",), given)
    slowest = min(limits, key=lambda each: each.rate)
    named = slowest.link(link_kinds.seconds(given.latency) if given.latency else None)
    text = f"up to {slowest.rate / 1e9:g} Gbit/s, {slowest.source}; not measured, hence the wide bands"
    return replace(_named(config, named, rank_step, given), unmeasured=LIMITED), text


def _of_machine_types(config: Config, roles: Sequence[str], given: Given) -> list[Limit]:
    """Return Google's limits, from the table."""
    names = {"--machine-type" if given.machine_type else "gcp.machine_type": config.gcp.machine_type}
    if "head" in roles and config.gcp.head_machine_type:
        names["gcp.head_machine_type"] = config.gcp.head_machine_type
    return [machine_types.find(key, name, _remedy(config)).limit for key, name in names.items()]


def _of_flavors(config: Config, roles: Sequence[str], _: Given) -> list[Limit]:
    """Return the limits of OpenStack's flavors, which the cloud alone knows."""
    try:
        limits = bandwidth.limits(config, roles)
    except OrchestratorError as error:
        raise _unknown(config, f"its limit is not known: {error.message}") from error
    if not limits:
        raise _unknown(config, f"{config.openstack.flavor} has no bandwidth limit, or none that this account can see")
    return limits


LIMITS: dict[str, Callable[[Config, Sequence[str], Given], list[Limit]]] = {
    "gcp": _of_machine_types,
    "openstack": _of_flavors,
}


def _unknown(config: Config, reason: str = "") -> ConfigError:
    problem = f"--link: missing, and no check of cluster {config.name!r} was fetched"
    reasons = [f"openstack.flavor: {reason}"] if reason else []
    return ConfigError([problem, *reasons], _remedy(config))


def _remedy(config: Config) -> str:
    return f"{command('check', config.name)} measures the link; or name one: --link 10gbit --latency 50us"
