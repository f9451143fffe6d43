"""What is put on hosts before Ansible gets to them, and taken away after it: an account, a key and a mark."""

import getpass
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from orchestrator import ansible, keys, progress, state
from orchestrator.cluster import Cluster, Node
from orchestrator.errors import NodesFailed
from orchestrator.inventory import inventory
from orchestrator.notes import noting
from orchestrator.providers.hosts import login, seen
from orchestrator.providers.hosts.login import Login
from orchestrator.providers.hosts.seen import ACCOUNT
from orchestrator.ssh import hostkeys
from orchestrator.state import Home

SCRIPT_SECONDS = 120.0
LOGIN_SECONDS = 20.0  # a host that was just adopted answers at once
OnLine = Callable[[str], None]


class Machine(BaseModel):
    """A host as node ``name``. Without an ``id`` it was never seen; where there is a ``problem`` it is left out."""

    model_config = ConfigDict(frozen=True)

    name: str
    role: Literal["head", "worker"]
    login: Login
    id: str = ""
    address: str = ""
    port: int = 22
    private_address: str = ""
    cpus: int = 0
    gpus: int = 0
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.login} ({self.name})"


class Given(BaseModel):
    """What a deploy knows of its hosts. ``leaving`` were nodes before; ``uid`` and ``gid`` are those of our account."""

    machines: list[Machine]
    leaving: list[Machine] = []
    storage: Literal["nfs", "mounted"]
    trainer: Literal["container", "installed"]
    uid: int | None = None
    gid: int | None = None

    @property
    def everyone(self) -> list[Machine]:
        return [*self.machines, *self.leaving]


def cluster_of(name: str, given: Given, machines: Sequence[Machine], slots: int | None = None) -> Cluster:
    """The cluster of ``machines``, one of them a head. Each has a public address: none is reached through the head."""
    nodes = {
        machine.name: Node(
            id=machine.id,
            role=machine.role,
            public_address=machine.address,
            private_address=machine.private_address,
            port=machine.port,
            cpus=machine.cpus,
            gpus=machine.gpus,
            slots=slots or max(machine.gpus, 1),
        )
        for machine in machines
    }
    jump = next((machine.login.jump for machine in machines if machine.login.jump), None)
    described: dict[str, Any] = {"storage": given.storage, "trainer": given.trainer, "jump": jump}
    return Cluster(name=name, ssh_user=ACCOUNT, nodes=nodes, **described)


def held(machines: Sequence[Machine], deployment: str) -> dict[Machine, bool]:
    """Those that have something of this ``deployment``; False stands for one that does not answer."""
    chosen = {machine.name: machine for machine in machines if machine.id}
    logins = {name: machine.login for name, machine in chosen.items()}
    facts, silent = login.every(logins, lambda name: seen.ask(logins[name]))
    marked = {name for name, found in facts.items() if found.mark_id == deployment}
    return {machine: name in marked for name, machine in chosen.items() if name in marked or name in silent}


def adopt(name: str, deployment: str, given: Given, machines: Sequence[Machine], key: str) -> dict[str, str]:
    """Let the holder of ``key`` (a public one) into an account of ours on each host. Gives why not, by node.

    Done again, it changes nothing.
    """
    whom = f"{getpass.getuser()}@{socket.gethostname()}"
    words = {"cluster": name, "id": deployment, "by": whom, "key": " ".join(key.split()[:2])}
    ids = {"uid": given.uid or "", "gid": given.gid or ""}
    return _everywhere(machines, lambda m: _as_root(m, "adopt.sh", node=m.name, **words, **ids))


def give_back(place: Home, deployment: str, given: Given, ours: Mapping[Machine, bool], on_line: OnLine) -> None:
    """Make nodes of that ``deployment``, as :func:`held` gives them, what they were before. What cannot be is noted."""
    machines = [machine for machine, answers in ours.items() if answers]
    kept = {machine.name: "it does not answer" for machine, answers in ours.items() if not answers}
    if machines:
        with noting("undoing what was configured"), _aside(place) as aside:
            _unconfigure(aside, deployment, given, machines, on_line)
        kept |= _everywhere(machines, lambda m: _as_root(m, "release.sh", id=deployment))
    for name, reason in kept.items():
        progress.note(f"{name} keeps what we put there: {reason}")


@contextmanager
def _aside(place: Home) -> Iterator[Home]:
    """A directory with a key for a removal alone: the cluster's own may be lost. After an error the log is kept."""
    aside = Home(place.path / "aside" / place.name)
    try:
        yield aside
        shutil.rmtree(aside.path.parent)
    finally:
        ansible.forget(aside)
        state.forget(aside)


def _as_root(machine: Machine, script: str, **given: object) -> str:
    return login.run(machine.login, script, root=True, seconds=SCRIPT_SECONDS, **given)


def _everywhere(machines: Sequence[Machine], action: Callable[[Machine], str]) -> dict[str, str]:
    chosen = {machine.name: machine for machine in machines}
    return login.every({name: m.login for name, m in chosen.items()}, lambda name: action(chosen[name]))[1]


def _unconfigure(aside: Home, deployment: str, given: Given, machines: Sequence[Machine], on_line: OnLine) -> None:
    """Undo what Ansible did, as far as hosts let us. Raises NodesFailed, CommandFailed."""
    refused = adopt(aside.name, deployment, given, machines, keys.public_half(aside.key))
    ours = [machine for machine in machines if machine.name not in refused]
    headless = not any(machine.role == "head" for machine in ours)
    if ours:
        first, *others = sorted(ours, key=lambda machine: machine.role)
        made = cluster_of(aside.name, given, [first.model_copy(update={"role": "head"}), *others])
        pinned = hostkeys.pin(aside, made, {}, LOGIN_SECONDS)
        known = inventory(made, aside.key, aside.known_hosts, pinned, {"jupyter": True, "monitoring": True})  # may be
        groups = known["all"]["children"]
        if headless:  # none of them has what only a head has
            groups |= {"head": {"hosts": {}}, "workers": {"hosts": {name: {} for name in made.nodes}}}
        ansible.remove(aside, known, on_line)
    if refused:
        raise NodesFailed("left as they are configured", refused)
