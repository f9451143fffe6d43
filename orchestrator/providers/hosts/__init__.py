"""Nodes that are machines one has already, which nothing but ssh is known of. They stay; what we put there goes."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from orchestrator import images, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config, expanded, stored
from orchestrator.errors import NodesFailed, PreflightError, gather
from orchestrator.providers import Resource, machines
from orchestrator.providers.hosts import adoption, findings, wanted
from orchestrator.providers.hosts import seen as sight
from orchestrator.providers.hosts.adoption import Given, OnLine
from orchestrator.ssh import hostkeys
from orchestrator.state import Home, Record

KIND = "host"


def preflight(config: Config, record: Record | None) -> None:
    """Every host lets us in and can be a node. One that cannot is left out where ``min_nodes`` others can."""
    if not shutil.which("ssh"):
        return  # which is a finding of its own
    identity = config.hosts.identity
    if identity and not expanded("hosts.identity", identity).is_file():
        raise PreflightError(f"hosts.identity: {identity}: no such file", "name a private key, or leave it out")
    seen = sight.look(config)
    found = [findings.of(one, config, record.id if record else "") for one in seen]
    good = [one.name for one, problems in zip(seen, found, strict=True) if not problems]
    enough = seen[0].name in good and len(good) >= (config.min_nodes or config.nodes)
    problems = [] if enough else [problem for of_one in found for problem in of_one]
    gather(*(partial(_throw, p) for p in [*findings.between(seen), *problems]), lambda: sight.account_id(seen))


def _throw(error: PreflightError) -> NoReturn:
    raise error


def callers(config: Config, record: Record | None) -> list[str]:
    """Whoever reaches the hosts now does so afterwards."""
    return []


def variables(config: Config, record: Record) -> dict[str, Any]:
    """The hosts as they were seen, and those that are no longer wanted."""
    return wanted.by(config, record).model_dump(mode="json")


def accelerated(config: Config, record: Record | None) -> tuple[str | None, str]:
    """The GPUs and the system of the first host that has any. What cannot be seen is for the preflight to tell."""
    seen = [one.facts for one in sight.again(config) if one.facts]
    with_gpus = [facts for facts in seen if facts.gpus]
    systems = {facts.system for facts in with_gpus or seen}
    return with_gpus[0].gpu if with_gpus else None, systems.pop() if len(systems) == 1 else ""


def prepare(record: Record, place: Home) -> None:
    """Nothing where hosts have their trainer already."""
    if stored(record.config).hosts.trainer == "container":
        machines.prepare(record, place)


def trainer_digest(record: Record) -> str:
    if stored(record.config).hosts.trainer == "container":
        return machines.trainer_digest(record)
    return images.digest(stored(record.config).local.base_image)


def strays(place: Home, record: Record) -> Sequence[Resource]:
    """None: the record names every host."""
    return []


def provision(
    place: Home, record: Record, strays: Sequence[Resource], on_line: OnLine
) -> tuple[Cluster, dict[str, str]]:
    """Adopt the hosts, and give back those that are no longer wanted."""
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
    """The cluster without what is ``missing``. Raises NodesFailed where that is the head, or too much."""
    rest = [machine for machine in given.machines if machine.name not in missing]
    if len(rest) < record.least or rest[0].role != "head":
        raise NodesFailed("hosts that cannot be nodes", missing, remedy)
    return adoption.cluster_of(record.config["name"], given, rest, record.variables["slots"])


def destroy(place: Home, record: Record, on_line: OnLine) -> None:
    """Undo what Ansible did and what :func:`provision` did. Of what stays, the receipt tells."""
    given = wanted.before(record)
    if given:
        adoption.give_back(place, record.id, given, adoption.held(given.everyone, record.id), on_line)


def survey(record: Record) -> list[Resource]:
    """Hosts that have our mark. One that does not answer counts: nobody knows that it has none."""
    given = wanted.before(record)
    held = adoption.held(given.everyone, record.id) if given else {}
    return [Resource(KIND, str(machine), machine.id, answers) for machine, answers in held.items()]


def lost(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Nothing: a host is not made anew."""
    return []


def priced(config: Config) -> dict[str, int]:
    return {}


def faults(record: Record) -> dict[str, str]:
    """None but those that :func:`provision` gives."""
    return {}


def strangers(config: Config) -> list[Resource]:
    """Hosts of the config that are nodes of a cluster of this name."""
    return [Resource(KIND, str(machine), machine.id) for machine in wanted.marked(config)]


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Give back hosts that another state directory, or one that is lost, knows as nodes of this cluster."""
    chosen = {resource.key for resource in resources}
    theirs = {machine: deployment for machine, deployment in wanted.marked(config).items() if machine.id in chosen}
    for deployment in sorted(set(theirs.values())):
        found = [machine for machine in theirs if theirs[machine] == deployment]
        given = Given(machines=found, storage=config.hosts.storage, trainer=config.hosts.trainer)
        adoption.give_back(state.home(config.name), deployment, given, dict.fromkeys(found, True), lambda line: None)
