"""deploy and teardown: two ordered, readable scripts. Every step is idempotent, so resuming is running them again."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from orchestrator import (
    __version__,
    ansible,
    checks,
    cluster,
    keys,
    progress,
    providers,
    runs,
    ssh,
    state,
    terraform,
)
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import CommandFailed, NodesFailed, OrchestratorError, StateError
from orchestrator.providers import Provider, Resource
from orchestrator.state import Home, Record

SSH_SECONDS = 120.0


@dataclass(frozen=True)
class Deployment:
    """What a deploy ended with; ``changed`` counts Ansible's changes by node, ``seconds`` the time by step."""

    cluster: Cluster
    changed: dict[str, int]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Receipt:
    """What a teardown found made, and what of it is left."""

    cluster: str
    made: list[Resource]
    left: list[Resource]

    @property
    def gone(self) -> list[Resource]:
        return [resource for resource in self.made if resource not in self.left]


def preflight(config: Config) -> None:
    """Raise PreflightError or StateError where a deploy could not succeed. Touches nothing."""
    record = state.read(state.home(config.name))
    if record and record.config["provider"] != config.provider:
        raise StateError(
            f"cluster {config.name!r} is deployed with provider {record.config['provider']}",
            "tear it down first, or choose another --name",
        )
    terraform.check_version()
    providers.get(config.provider).preflight(config, record)


def deploy(config: Config) -> Deployment:
    """Make the cluster that ``config`` asks for, out of whatever part of it is there."""
    preflight(config)
    place, provider = state.home(config.name), providers.get(config.provider)
    with state.locked(place):
        record = _begin(place, config)
        with _keeping(provider, record):
            record, made = _provision(place, config, provider, record)
            record = _reach(place, record, made)
            changed = _configure(place, record, made)
            with progress.step("Checking health"):
                digest = provider.trainer_digest(config)
                checks.require_healthy(checks.health(place, made, digest), made)
    return Deployment(made, changed, progress.seconds())


def _begin(place: Home, config: Config) -> Record:
    """Remember the cluster before anything of it is made."""
    values = config.model_dump(mode="json")
    record = state.read(place) or state.new_record(values)
    record = record.model_copy(update={"config": values, "written_by": __version__})
    state.write(place, record)
    return record


def _provision(place: Home, config: Config, provider: Provider, record: Record) -> tuple[Record, Cluster]:
    variables = {
        "name": config.name,
        "id": record.id,
        "nodes": config.nodes,
        "slots": config.slots,
        "ssh_public_key": keys.public_half(place.key),
        config.provider: provider.variables(config, record, place),
    }
    record = record.model_copy(update={"variables": variables})
    state.write(place, record)
    with progress.step(f"Provisioning {config.nodes} {'node' if config.nodes == 1 else 'nodes'}") as step:
        lost = provider.lost(record, terraform.recorded(place, config.provider))
        made = terraform.apply(place, config.provider, variables, lost, step.detail)
    record = record.model_copy(update={"cluster": made})
    state.write(place, record)
    return record, made


def _reach(place: Home, record: Record, made: Cluster) -> Record:
    """Wait until every node answers, and pin the host keys of the new ones."""
    with progress.step("Waiting for ssh"):
        keys = ssh.pin_host_keys(place, made, record.host_keys, SSH_SECONDS)
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
    return f"kept: {names}\n`orchestrator deploy` goes on from here, `orchestrator teardown` removes it"


def teardown(name: str) -> Receipt:
    """Remove a cluster, whatever part of it is there; runs and their results stay. Needs only the state directory."""
    place = state.home(name)
    if state.read(place) is None:
        return Receipt(name, [], [])
    with state.locked(place):
        record = state.read(place)
        if record is None:
            return Receipt(name, [], [])
        provider = providers.get(record.config["provider"])
        made = provider.survey(record)
        _save_runs(place, record)
        with progress.step("Destroying") as step:
            _destroy(place, record, step)
            provider.remove(provider.survey(record))
        left = provider.survey(record)
        if not left:
            state.forget(place)
    return Receipt(name, made, left)


def _destroy(place: Home, record: Record, step: progress.Step) -> None:
    """Destroy what Terraform's state holds. Where that fails, what carries our labels is removed all the same."""
    try:
        terraform.destroy(place, record.config["provider"], step.detail)
    except CommandFailed as error:
        progress.note(f"{error.message}\nremoving by label instead")


def _save_runs(place: Home, record: Record) -> None:
    """Stop what runs and fetch what was not fetched, as far as the head still answers."""
    pending = [run for run in runs.known(place) if not runs.is_collected(place, run)]
    if not (pending and record.cluster):
        return
    with (
        progress.step("Saving results of runs") as step,
        suppress(NodesFailed, CommandFailed),
        runs.head_session(place, record.cluster) as head,
    ):
        for run in pending:
            step.detail(run.id)
            if runs.look(place, head, run).state == "running":
                runs.stop(head, run)
            runs.collect(place, head, run)


def orphans(name: str, provider: str = "local") -> list[Resource]:
    """What carries the label of cluster ``name`` although this state directory does not know it."""
    record = state.read(state.home(name))
    known = set(providers.get(provider).survey(record)) if record else set()
    return [resource for resource in providers.get(provider).strangers(name) if resource not in known]


def remove_orphans(name: str, found: list[Resource], provider: str = "local") -> Receipt:
    """Remove ``found`` and nothing else."""
    providers.get(provider).remove(found)
    return Receipt(name, found, [resource for resource in orphans(name, provider) if resource in found])
