"""Source of the link of a prediction: options, else the newest check of the cluster, else Google's machine type."""

from dataclasses import replace

from orchestrator.cli.prediction_sources import Given
from orchestrator.config import Config, nearest
from orchestrator.errors import ConfigError, command
from orchestrator.prediction import kinds, machine_types
from orchestrator.prediction.connection import Connection
from orchestrator.prediction.kinds import Named
from orchestrator.prediction.node import Node
from orchestrator.runs import predictions
from orchestrator.runs.predictions import History


def connection(config: Config, one: Node, given: Given, history: History) -> tuple[Connection, str]:
    """Return the ranks' connection and what it is known from.

    Args:
        config: The cluster's, with the machine type that is given.
        one: One rank's step: whether a GPU computes it.
        given: Options of the command.
        history: Runs of the cluster.

    Returns:
        The connection, and its source as text.

    Raises:
        ConfigError: Nothing tells the link, or it cannot be read.
    """
    if given.within not in kinds.LOCAL:
        problem = f"--within: {given.within!r} is unknown{nearest(given.within, list(kinds.LOCAL))}"
        raise ConfigError([f"{problem} (known: {', '.join(kinds.LOCAL)})"])
    if given.link is not None:
        named = kinds.parse(given.link, given.latency)
        text = f"{named.rate / 1e9:g} Gbit/s, {named.kind}, as given"
        return _named(config, named, one, given), text
    if given.machine_type is None and (found := _measured(config, given, history)):
        return found
    if config.provider == "gcp":
        return _limited(config, one, given)
    problem = f"--link: missing, and no check of cluster {config.name!r} was fetched"
    raise ConfigError([problem], _remedy(config))


def _named(config: Config, named: Named, one: Node, given: Given) -> Connection:
    if one.cores:
        return Connection(named.between_cpus(one.cores), kinds.LOOPBACK, _slots(config))
    return Connection(named.between_gpus(), kinds.within_node(given.within), _slots(config))


def _slots(config: Config) -> int:
    """Return the ranks of a node."""
    return config.slots or machine_types.ranks(config)


def _measured(config: Config, given: Given, history: History) -> tuple[Connection, str] | None:
    if given.latency:
        problem = "--latency: only with --link or --machine-type: the measurement of `check` includes the latency"
        raise ConfigError([problem])
    return predictions.connection(history, _slots(config), config.launch.controller)


def _limited(config: Config, one: Node, given: Given) -> tuple[Connection, str]:
    """Return the connection by the limit of the machine type; CPUs of the head are in the ring, and may be slower."""
    key, remedy = "--machine-type" if given.machine_type else "gcp.machine_type", _remedy(config)
    types = [machine_types.find(key, config.gcp.machine_type, remedy)]
    if one.cores and config.gcp.head_machine_type:
        types.append(machine_types.find("gcp.head_machine_type", config.gcp.head_machine_type, remedy))
    slowest = min(types, key=lambda each: each.gbit)
    named = slowest.link(kinds.seconds(given.latency) if given.latency else None)
    text = f"up to {slowest.gbit:g} Gbit/s, Google's limit for {slowest.name}; not measured, hence the wide bands"
    return replace(_named(config, named, one, given), unmeasured=machine_types.UNMEASURED), text


def _remedy(config: Config) -> str:
    hint = f"{command('check', config.name)} measures the link; or name one: --link 10gbit --latency 50us"
    if config.provider != "openstack":
        return hint
    shown = f"`openstack flavor show {config.openstack.flavor or 'FLAVOR'}`"
    limit = "quota:vif_outbound_average=1250000 is --link 1250000kbyte"
    return f"{hint}; {shown} has the flavor's limit, if the cloud sets one: {limit}"
