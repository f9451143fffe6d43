"""deploy: an ordered, readable script. Every step is idempotent, so resuming is running it again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from orchestrator import (
    __version__,
    ansible,
    checks,
    cluster,
    keys,
    lock,
    process,
    progress,
    providers,
    removal,
    runs,
    state,
    terraform,
)
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import NodesFailed, OrchestratorError, StateError, command
from orchestrator.providers import Provider, Resource
from orchestrator.ssh import hostkeys
from orchestrator.state import Home, Record

SSH_SECONDS = 120.0


@dataclass(frozen=True)
class Deployment:
    """What a deploy ended with; ``changed`` counts Ansible's changes by node, ``seconds`` the time by step."""

    cluster: Cluster
    changed: dict[str, int]
    seconds: dict[str, float]


def preflight(config: Config) -> None:
    """Raise PreflightError or StateError where a deploy could not succeed. Touches nothing."""
    record = state.read(state.home(config.name))
    if record and record.config["provider"] != config.provider:
        raise StateError(
            f"cluster {config.name!r} is deployed with provider {record.config['provider']}",
            f"{command('teardown', config.name)} first, or choose another name with --cluster",
        )
    terraform.check_version()
    providers.get(config.provider).preflight(config, record)
    process.require("ssh", "install OpenSSH's client: `sudo apt-get install openssh-client`")


def deploy(config: Config) -> Deployment:
    """Make the cluster that ``config`` asks for, out of whatever part of it is there."""
    preflight(config)
    place, provider = state.home(config.name), providers.get(config.provider)
    with lock.held(place):
        record = state.read(place) or state.new_record(config.model_dump(mode="json"))
        variables = _variables(place, config, provider, record)
        _spare_runs(place, record, variables)
        record = _begin(place, config, record, variables)
        with _keeping(provider, record):
            record, made = _provision(place, config, provider, record)
            record = _reach(place, record, made)
            changed = _configure(place, record, made)
            with progress.step("Checking health"):
                digest = provider.trainer_digest(config)
                checks.require_healthy(checks.health(place, made, digest), made)
    return Deployment(made, changed, progress.seconds())


def _variables(place: Home, config: Config, provider: Provider, record: Record) -> dict[str, Any]:
    """What Terraform is told. Nothing is written down before this: it finds out whether there can be such images."""
    return {
        "name": config.name,
        "id": record.id,
        "nodes": config.nodes,
        "slots": config.slots,
        config.provider: provider.variables(config, record, place),
        "ssh_public_key": keys.public_half(place.key),
    }


def _spare_runs(place: Home, record: Record, variables: Mapping[str, Any]) -> None:
    """Raises StateError where a deploy would change nodes under a run. Where the head does not answer, none goes on.

    Nodes that are lost are made anew all the same: a run that was on them has failed.
    """
    made = record.cluster
    if made is None or variables == record.variables or made.nodes[made.head].id not in record.host_keys:
        return
    with suppress(NodesFailed), runs.head_session(place, made) as head:
        checks.require_free(runs.active(head), made)


def _begin(place: Home, config: Config, record: Record, variables: dict[str, Any]) -> Record:
    """Remember the cluster before anything of it is made."""
    changes = {"config": config.model_dump(mode="json"), "written_by": __version__, "variables": variables}
    record = record.model_copy(update=changes)
    state.write(place, record)
    return record


def _provision(place: Home, config: Config, provider: Provider, record: Record) -> tuple[Record, Cluster]:
    with progress.step(f"Provisioning {config.nodes} {'node' if config.nodes == 1 else 'nodes'}") as step:
        lost = provider.lost(record, terraform.recorded(place, config.provider))
        made = terraform.apply(place, config.provider, record.variables, lost, step.detail)
        provider.remove(removal.strays(place, provider, record))
    record = record.model_copy(update={"cluster": made})
    state.write(place, record)
    return record, made


def _reach(place: Home, record: Record, made: Cluster) -> Record:
    """Wait until every node answers, and pin the host keys of the new ones."""
    with progress.step("Waiting for ssh"):
        keys = hostkeys.pin(place, made, record.host_keys, SSH_SECONDS)
    record = record.model_copy(update={"host_keys": keys})
    state.write(place, record)
    return record


def _configure(place: Home, record: Record, made: Cluster) -> dict[str, int]:
    inventory = cluster.inventory(made, place.key, place.known_hosts, record.host_keys)
    with progress.step("Configuring nodes") as step:
        recap = ansible.configure(place, inventory, step.detail)
    return recap.changed


@contextmanager
def _keeping(provider: Provider, record: Record) -> Iterator[None]:
    """On an error keep everything, and add to its remedy what exists and what can be done about it."""
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
