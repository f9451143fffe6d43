"""deploy: an ordered, readable script. Every step is idempotent, so resuming is running it again."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator import (
    __version__,
    alerting,
    ansible,
    checks,
    gpu,
    keys,
    lock,
    notebook,
    prices,
    process,
    progress,
    providers,
    runs,
    settings,
    state,
    terraform,
)
from orchestrator.cluster import Cluster
from orchestrator.config import Config, stored
from orchestrator.errors import NodesFailed, OrchestratorError, StateError, command, gather
from orchestrator.gpu import Pairing
from orchestrator.inventory import inventory
from orchestrator.monitoring import password
from orchestrator.providers import Provider, Resource
from orchestrator.ssh import hostkeys
from orchestrator.state import Home, Record
from orchestrator.terraform import Change

SSH_SECONDS = {"installed": 120.0, "container": 900.0}  # a container answers at once, a machine boots first


@dataclass(frozen=True)
class Deployment:
    """What a deploy ended with.

    ``missing`` has the nodes that are not there, each with why; ``changed`` counts Ansible's changes by node,
    ``seconds`` the time by step.
    """

    cluster: Cluster
    missing: dict[str, str]
    changed: dict[str, int]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Plan:
    """What a deploy would do: changes of resources, and how many there will be of each thing that has a price."""

    changes: list[Change]
    priced: dict[str, int]


def preflight(config: Config) -> Pairing:
    """What goes with the nodes' GPUs.

    Raises PreflightError, with all that is found at once, or StateError, where a deploy could not succeed.
    """
    record = state.read(state.home(config.name))
    if record and record.config["provider"] != config.provider:
        raise StateError(
            f"cluster {config.name!r} is deployed with provider {record.config['provider']}",
            f"{command('teardown', config.name)} first, or choose another name with --cluster",
        )
    pairings: list[Pairing] = []
    gather(
        lambda: terraform.check_version() if terraform.has_root(config.provider) else None,
        lambda: providers.get(config.provider).preflight(config, record),
        lambda: pairings.append(_pairing(config)),
        lambda: alerting.configuration(config.monitoring.receivers) if config.monitoring.enabled else None,
        lambda: process.require("ssh", "install OpenSSH's client: `sudo apt-get install openssh-client`"),
    )
    return pairings[0]


def _pairing(config: Config) -> Pairing:
    """What goes with the nodes' GPUs. Raises PreflightError where nothing does."""
    model, image = providers.get(config.provider).accelerated(config)
    return gpu.resolve(model, config.gpu, gpu.distribution(image))


def plan(config: Config) -> Plan:
    """What a deploy would make. Touches nothing."""
    with progress.step("Checking what is asked for"):
        preflight(config)
    place, provider = state.home(config.name), providers.get(config.provider)
    record = state.read(place) or state.new_record(config.model_dump(mode="json"))
    changes: list[Change] = []
    if terraform.has_root(config.provider):
        with progress.step("Planning"), TemporaryDirectory(prefix="orchestrator-plan-") as temporary:
            draft = Home(Path(temporary) / config.name)
            given = _variables(place if place.key.exists() else draft, config, provider, record)
            changes = terraform.plan(draft, config.provider, given, place)
    return Plan(changes, provider.priced(config))


def deploy(config: Config) -> Deployment:
    """Make the cluster that ``config`` asks for, out of whatever part of it is there."""
    with progress.step("Checking what is asked for"):
        pairing = preflight(config)
    place, provider = state.home(config.name), providers.get(config.provider)
    _say_what_it_costs(config, provider)
    with lock.held(place):
        record = _draft(place, config, provider, pairing)
        provider.prepare(record, place)
        _spare_runs(place, state.read(place) or record, record.variables)
        state.write(place, record)  # before anything of it is made
        with notebook.settled(place, config), password.settled(place, config), _keeping(provider, record):
            effort = _Effort(place, record, record.least)
            made = effort.settle(_provision(place, provider, record, effort.missing), effort.reach)
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
    """The record as this deploy wants it; nothing is written down yet."""
    record = state.read(place) or state.new_record(config.model_dump(mode="json"))
    variables = _variables(place, config, provider, record)
    changes = {"config": config.model_dump(mode="json"), "written_by": __version__, "variables": variables}
    return record.model_copy(update={**changes, "gpu": pairing})


def _variables(place: Home, config: Config, provider: Provider, record: Record) -> dict[str, Any]:
    """What Terraform is told."""
    return {
        "name": config.name,
        "id": record.id,
        "nodes": config.nodes,
        "slots": config.slots,
        "allow_from": [str(network) for network in config.allow_from or []] or provider.callers(config),
        "without": [],
        config.provider: provider.variables(config, record),
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


def _provision(place: Home, provider: Provider, record: Record, missing: dict[str, str]) -> Cluster:
    """The cluster as it was made; nodes that were not, although enough were, are put into ``missing``."""
    count = record.config["nodes"]
    with progress.step(f"Provisioning {count} {'node' if count == 1 else 'nodes'}") as step:
        made, not_made = provider.provision(place, record, step.detail)
    missing |= not_made
    return made


@dataclass
class _Effort:
    """A deploy under way, which is content with ``least`` nodes, the head among them."""

    place: Home
    record: Record
    least: int
    missing: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)

    def settle(self, made: Cluster, step: Callable[[Cluster], None]) -> Cluster:
        """Take ``step`` with as many nodes as can take it. Raises NodesFailed where these are too few."""
        while True:
            self.remember(made)
            try:
                step(made)
            except NodesFailed as failed:
                rest = made.without(failed.reasons)
                if made.head in failed.reasons or len(rest.nodes) < self.least:
                    raise
                progress.note(f"going on without them: {failed.message}")
                self.missing |= failed.reasons
                made = rest
            else:
                return made

    def remember(self, made: Cluster) -> None:
        self.record = self.record.model_copy(update={"cluster": made, "missing": dict(self.missing)})
        state.write(self.place, self.record)

    def reach(self, made: Cluster) -> None:
        """Wait until every node answers, and pin the host keys of the new ones."""
        with progress.step("Waiting for ssh"):
            pinned = hostkeys.pin(self.place, made, self.record.host_keys, SSH_SECONDS[made.trainer])
        self.record = self.record.model_copy(update={"host_keys": pinned})

    def configure(self, made: Cluster) -> None:
        alerting.keep(self.place, stored(self.record.config))
        given = settings.for_ansible(self.place, self.record, made)
        hosts = inventory(made, self.place.key, self.place.known_hosts, self.record.host_keys, given)
        with progress.step("Configuring nodes") as step:
            recap = ansible.configure(self.place, hosts, step.detail)
        self.changed = recap.changed
        for line in recap.notes:
            progress.note(f"note: {line}")

    def judge(self, made: Cluster) -> None:
        with progress.step("Checking health"):
            digest = providers.of(self.record).trainer_digest(self.record)
            checks.require_healthy(checks.health(self.place, made, digest), made)


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
