"""Provider of existing machines, reached only by ssh. A teardown keeps them and removes what a deploy put on them."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config, expanded, stored
from orchestrator.docker import context
from orchestrator.errors import NodesFailed, PreflightError, gather
from orchestrator.providers import Resource, trainer_image
from orchestrator.providers.hosts import adoption, requirements, selection
from orchestrator.providers.hosts import facts as sight
from orchestrator.providers.hosts.adoption import Given, OnLine
from orchestrator.ssh import hostkeys
from orchestrator.state import Home, Record

KIND = "host"


def preflight(config: Config, record: Record | None) -> None:
    """Check that every host can be reached and be a node. Bad hosts are left out if ``min_nodes`` good ones remain."""
    if not shutil.which("ssh"):
        return  # another check reports it
    identity = config.hosts.identity
    if identity and not expanded("hosts.identity", identity).is_file():
        raise PreflightError(f"hosts.identity: {identity}: no such file", "name a private key, or leave it out")
    seen = sight.look(config)
    found = [requirements.of(one, config, record.id if record else "") for one in seen]
    good = [one.name for one, problems in zip(seen, found, strict=True) if not problems]
    enough = seen[0].name in good and len(good) >= (config.min_nodes or config.nodes)
    problems = [] if enough else [problem for of_one in found for problem in of_one]
    gather(*(partial(_throw, p) for p in [*requirements.between(seen), *problems]), lambda: sight.account_id(seen))


def _throw(error: PreflightError) -> NoReturn:
    raise error


def callers(config: Config, record: Record | None) -> list[str]:
    """Return no network: the way to the hosts already exists and stays open."""
    return []


def variables(config: Config, record: Record) -> dict[str, Any]:
    """Return the hosts as they were seen, and former nodes to give back."""
    return selection.by(config, record).model_dump(mode="json")


def accelerated(config: Config, record: Record | None) -> tuple[str | None, str]:
    """Return the GPUs and the system of the first host with GPUs. Hosts without facts are reported by the preflight."""
    seen = [one.facts for one in sight.again(config) if one.facts]
    with_gpus = [facts for facts in seen if facts.gpus]
    systems = {facts.system for facts in with_gpus or seen}
    return with_gpus[0].gpu if with_gpus else None, systems.pop() if len(systems) == 1 else ""


def prepare(record: Record, place: Home) -> None:
    """Prepare the trainer's image, unless the hosts have the trainer installed."""
    if stored(record.config).hosts.trainer == "container":
        trainer_image.prepare(record, place)


def trainer_digest(record: Record) -> str:
    """Return the digest of the trainer that the nodes must have."""
    if stored(record.config).hosts.trainer == "container":
        return trainer_image.trainer_digest(record)
    return context.digest(stored(record.config).local.base_image)


def strays(place: Home, record: Record) -> Sequence[Resource]:
    """Return nothing: the record names every host."""
    return []


def provision(
    place: Home, record: Record, strays: Sequence[Resource], on_line: OnLine
) -> tuple[Cluster, dict[str, str]]:
    """Adopt the hosts, and give back former nodes that are not wanted any more.

    Args:
        place: State directory of the cluster.
        record: Record of the deployment.
        strays: Always empty.
        on_line: Receives lines of progress.

    Returns:
        The cluster, and the missing nodes with reasons.

    Raises:
        NodesFailed: The head, or too many nodes, cannot be adopted.
    """
    given, name = Given.model_validate(record.variables["hosts"]), record.config["name"]
    if given.leaving:
        on_line(f"giving back {', '.join(map(str, given.leaving))}")
        adoption.give_back(place, record.id, given, adoption.held(given.leaving, record.id), on_line)
    missing = {machine.name: machine.problem for machine in given.machines if machine.problem}
    sound = [machine for machine in given.machines if not machine.problem]
    missing |= adoption.adopt(name, record.id, given, sound, record.variables["ssh_public_key"])
    made = _enough(record, given, missing)
    try:
        hostkeys.pin(place, made, record.host_keys, adoption.LOGIN_SECONDS)
    except NodesFailed as failed:
        missing |= failed.reasons
        remedy = f"their sshd must let {sight.ACCOUNT} in by a key of ~/.ssh/authorized_keys (AllowUsers, AllowGroups)"
        made = _enough(record, given, missing, remedy)
    return made, missing


def _enough(record: Record, given: Given, missing: Mapping[str, str], remedy: str = "") -> Cluster:
    """Return the cluster without ``missing`` nodes. Raise NodesFailed if the head or too many of them are missing."""
    rest = [machine for machine in given.machines if machine.name not in missing]
    if len(rest) < record.least or rest[0].role != "head":
        raise NodesFailed("hosts that cannot be nodes", missing, remedy)
    return adoption.cluster_of(record.config["name"], given, rest, record.variables["slots"])


def destroy(place: Home, record: Record, on_line: OnLine) -> None:
    """Undo the work of Ansible and of :func:`provision`. The receipt lists what remains.

    Args:
        place: State directory of the cluster.
        record: Record of the deployment.
        on_line: Receives lines of progress.
    """
    given = selection.before(record)
    if given:
        adoption.give_back(place, record.id, given, adoption.held(given.everyone, record.id), on_line)


def survey(record: Record) -> list[Resource]:
    """Return hosts that have this deployment's mark, and those that do not answer: they may have it."""
    given = selection.before(record)
    held = adoption.held(given.everyone, record.id) if given else {}
    return [Resource(KIND, str(machine), machine.id, answers) for machine, answers in held.items()]


def lost(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Return nothing: a host cannot be made again."""
    return []


def priced(config: Config) -> dict[str, int]:
    """Return nothing: hosts have no price."""
    return {}


def faults(record: Record) -> dict[str, str]:
    """Return nothing: :func:`provision` returns the reasons itself."""
    return {}


def strangers(config: Config) -> list[Resource]:
    """Return hosts of the configuration that are nodes of a cluster of this name."""
    return [Resource(KIND, str(machine), machine.id) for machine in selection.marked(config)]


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Give back hosts that are nodes of this cluster in another, or a lost, state directory."""
    chosen = {resource.key for resource in resources}
    theirs = {machine: deployment for machine, deployment in selection.marked(config).items() if machine.id in chosen}
    for deployment in sorted(set(theirs.values())):
        found = [machine for machine in theirs if theirs[machine] == deployment]
        given = Given(machines=found, storage=config.hosts.storage, trainer=config.hosts.trainer)
        adoption.give_back(state.home(config.name), deployment, given, dict.fromkeys(found, True), lambda line: None)
