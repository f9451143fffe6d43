"""Deploy: ordered steps, each idempotent, so a deploy is resumed by running it again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from orchestrator import __version__, health, lock, progress, providers, state, terraform
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import NodesFailed, OrchestratorError, command
from orchestrator.gpu import Pairing
from orchestrator.lifecycle import archive, plan, prices
from orchestrator.lifecycle.rollout import Effort
from orchestrator.monitoring import grafana_password
from orchestrator.providers import Provider, Resource
from orchestrator.runs import control
from orchestrator.services import jupyter
from orchestrator.state import Home, Record


@dataclass(frozen=True)
class Deployment:
    """Result of a deploy.

    ``missing`` has the nodes that could not be deployed, with reasons; ``changed`` counts Ansible's changes by node;
    ``seconds`` has the duration of each step.
    """

    cluster: Cluster
    missing: dict[str, str]
    changed: dict[str, int]
    seconds: dict[str, float]


def deploy(config: Config) -> Deployment:
    """Deploy the cluster that ``config`` asks for, whatever part of it exists already."""
    with progress.step("Checking what is asked for"):
        pairing = plan.preflight(config)
    place, provider = state.home(config.name), providers.get(config.provider)
    _say_what_it_costs(config, provider)
    with lock.held(place), grafana_password.settled(place, config):
        record = _draft(place, config, provider, pairing)
        before = state.read(place) or record
        strays = provider.strays(place, before)
        _spare_runs(place, before, record.variables)
        archive.before_new_head(place, before, record.variables)
        state.write(place, record)  # before anything is made
        with jupyter.settled(place, config), _keeping(provider, record):
            effort = Effort(place, record, record.least)
            made = effort.settle(_provision(place, provider, record, strays, effort.missing), effort.reach)
            made = effort.settle(made, effort.configure)
            made = effort.settle(made, effort.judge)
            effort.remember(made)
    return Deployment(made, effort.missing, effort.changed, progress.seconds())


def _say_what_it_costs(config: Config, provider: Provider) -> None:
    items = prices.bill(provider.priced(config), config.prices)
    if items:
        wanted = ", ".join(f"{item.count} x {item.name}" for item in items)
        progress.note(f"asked for: {wanted}: {prices.total(items, config.currency)}")


def _draft(place: Home, config: Config, provider: Provider, pairing: Pairing) -> Record:
    """Return the record for this deploy, with the nodes' image built; the record is not saved yet."""
    before = state.read(place) or state.new_record(config.model_dump(mode="json"))
    changes = {"config": config.model_dump(mode="json"), "written_by": __version__, "gpu": pairing}
    record = before.model_copy(update=changes)
    provider.prepare(record, place)
    return record.model_copy(update={"variables": plan.variables(place, config, provider, before)})


def _spare_runs(place: Home, record: Record, variables: Mapping[str, Any]) -> None:
    """Refuse a deploy that would change nodes under a run. No run is active if the head does not answer.

    Lost nodes are replaced all the same: a run on them has failed.

    Raises:
        StateError: A run is under way.
    """
    made = record.cluster
    if made is None or not record.configured or _unchanged(place, record, variables):
        return
    with suppress(NodesFailed), control.head_session(place, made) as head:
        health.require_free(control.active(head), made)


def _unchanged(place: Home, record: Record, variables: Mapping[str, Any]) -> bool:
    """Return whether the nodes were made by these ``variables`` and this version's Terraform root.

    False if a later deploy began.
    """
    provider = record.config["provider"]
    same_root = not terraform.has_root(provider) or terraform.is_current(place, provider)
    return same_root and record.settled and _of_nodes(variables) == _of_nodes(record.variables)


def _of_nodes(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Remove Grafana's container from the variables, since it may change during a run."""
    return {
        key: {name: part for name, part in value.items() if name != "grafana"} if isinstance(value, dict) else value
        for key, value in variables.items()
    }


def _provision(
    place: Home, provider: Provider, record: Record, strays: Sequence[Resource], missing: dict[str, str]
) -> Cluster:
    """Provision the cluster; nodes that failed, although enough are left, are added to ``missing``."""
    count = record.config["nodes"]
    with progress.step(f"Provisioning {count} {'node' if count == 1 else 'nodes'}") as step:
        made, not_made = provider.provision(place, record, strays, step.detail)
    missing |= not_made
    return made


@contextmanager
def _keeping(provider: Provider, record: Record) -> Iterator[None]:
    """Keep all resources on an error, and add to its hint which exist, how to continue and how to remove them."""
    try:
        yield
    except OrchestratorError as error:
        error.hint = "\n".join(filter(None, [error.hint, _kept(provider, record)]))
        raise
    except KeyboardInterrupt:
        progress.note(_kept(provider, record))
        raise


def _kept(provider: Provider, record: Record) -> str:
    made: list[Resource] = []
    with suppress(OrchestratorError):
        made = provider.survey(record)
    if not made:
        return ""
    names = ", ".join(map(str, made))
    goes_on, removes = (command(word, record.config["name"]) for word in ("deploy", "teardown"))
    return f"kept: {names}\n{goes_on} goes on from here, {removes} removes it"
