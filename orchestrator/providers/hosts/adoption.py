"""Adoption of hosts before Ansible runs, and its removal: an account, a key and a mark."""

import getpass
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from orchestrator import progress, state
from orchestrator.ansible import runner, shared_ssh_connections
from orchestrator.ansible.inventory import inventory
from orchestrator.cluster import Cluster, Node
from orchestrator.errors import NodesFailed
from orchestrator.progress import log_errors
from orchestrator.providers.hosts import login, survey_answers
from orchestrator.providers.hosts.login import Login
from orchestrator.providers.hosts.survey_answers import ACCOUNT
from orchestrator.ssh import key_pair, pinned_host_keys
from orchestrator.state import StateDir

SCRIPT_SECONDS = 120.0
LOGIN_SECONDS = 20.0  # a host that was just adopted answers at once
MARK = "/etc/orchestrator/deployment"  # written by adopt.sh
OnLine = Callable[[str], None]


class Machine(BaseModel):
    """Host as node ``name``. ``id`` is empty if the host was never seen; a host with a ``problem`` is left out."""

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


class HostSet(BaseModel):
    """Hosts as a deploy knows them. ``leaving`` are former nodes; ``uid`` and ``gid`` are the numbers of ACCOUNT."""

    machines: list[Machine]
    leaving: list[Machine] = []
    storage: Literal["nfs", "mounted"]
    trainer: Literal["container", "installed"]
    uid: int | None = None
    gid: int | None = None

    @property
    def everyone(self) -> list[Machine]:
        """Return all machines, including former nodes."""
        return [*self.machines, *self.leaving]


def cluster_of(name: str, host_set: HostSet, machines: Sequence[Machine], slots: int | None = None) -> Cluster:
    """Describe the cluster of ``machines``. Each has a public address: none is reached through the head.

    Args:
        name: Name of the cluster.
        host_set: Hosts as the deploy knows them.
        machines: The nodes; one of them is the head.
        slots: Ranks per node; default: one per GPU, or one.

    Returns:
        The cluster.
    """
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
    described: dict[str, Any] = {"storage": host_set.storage, "trainer": host_set.trainer, "jump": jump}
    return Cluster(name=name, ssh_user=ACCOUNT, nodes=nodes, **described)


def marked_machines(machines: Sequence[Machine], deployment: str) -> dict[Machine, bool]:
    """Return machines that hold something of ``deployment``: True if marked, False if the host does not answer."""
    chosen = {machine.name: machine for machine in machines if machine.id}
    logins = {name: machine.login for name, machine in chosen.items()}
    surveys, silent = login.every(logins, lambda name: survey_answers.survey_host(logins[name]))
    marked = {name for name, survey in surveys.items() if survey.mark_id == deployment}
    return {machine: name in marked for name, machine in chosen.items() if name in marked or name in silent}


def adopt(name: str, deployment: str, host_set: HostSet, machines: Sequence[Machine], key: str) -> dict[str, str]:
    """Let the holder of a key into the account ACCOUNT on each host. Repeating it changes nothing.

    Args:
        name: Name of the cluster.
        deployment: Id of the deployment.
        host_set: Hosts as the deploy knows them.
        machines: Hosts to adopt.
        key: The public key.

    Returns:
        Reasons of failures, by node.
    """
    caller = f"{getpass.getuser()}@{socket.gethostname()}"
    words = {"cluster": name, "id": deployment, "by": caller, "key": " ".join(key.split()[:2])}
    ids = {"uid": host_set.uid or "", "gid": host_set.gid or ""}
    return _on_every_machine(machines, lambda m: _as_root(m, "adopt.sh", node=m.name, **words, **ids))


def release(
    state_dir: StateDir, deployment: str, host_set: HostSet, nodes: Mapping[Machine, bool], on_line: OnLine
) -> None:
    """Restore nodes to their state before the deploy. Failures are printed as notes, and leave the node marked.

    Args:
        state_dir: State directory of the cluster.
        deployment: Id of the deployment.
        host_set: Hosts as the deploy knows them.
        nodes: Nodes of the deployment, from :func:`marked_machines`.
        on_line: Receives lines of progress.
    """
    machines = [machine for machine, answers in nodes.items() if answers]
    reasons = {machine.name: "it does not answer" for machine, answers in nodes.items() if not answers}
    left = _release(state_dir, deployment, host_set, machines, on_line) if machines else {}
    for name, reason in (reasons | left).items():
        progress.note(f"{name} still has what the deploy installed: {reason}")
    if left:
        progress.note(
            f"the same command tries again: it needs sudo, and an sshd that lets {ACCOUNT} in by a key (AllowUsers, "
            f"AllowGroups); `sudo rm {MARK}` on a host gives up what is left there"
        )


def _release(
    state_dir: StateDir, deployment: str, host_set: HostSet, machines: Sequence[Machine], on_line: OnLine
) -> dict[str, str]:
    """Remove configuration, account and mark of machines. Return the reasons of those that keep them."""
    configured = {machine.name: "removing its configuration failed" for machine in machines}
    with log_errors("removing the configuration"), _temporary_state_dir(state_dir) as temporary:
        try:
            _unconfigure(temporary, deployment, host_set, machines, on_line)
            configured = {}
        except NodesFailed as failed:
            configured = failed.reasons
            raise
    kept = _on_every_machine(
        machines, lambda m: _as_root(m, "release.sh", id=deployment, configured="yes" * (m.name in configured))
    )
    return {name: configured.get(name, reason) for name, reason in kept.items()}


@contextmanager
def _temporary_state_dir(state_dir: StateDir) -> Iterator[StateDir]:
    """Yield a state directory with a key for one removal: the cluster's own key may be lost. An error keeps the log."""
    temporary = StateDir(state_dir.path / "aside" / state_dir.name)
    try:
        yield temporary
        shutil.rmtree(temporary.path.parent)
    finally:
        shared_ssh_connections.forget(temporary)
        state.forget(temporary)


def _as_root(machine: Machine, script: str, **host_set: object) -> str:
    return login.run(machine.login, script, root=True, seconds=SCRIPT_SECONDS, **host_set)


def _on_every_machine(machines: Sequence[Machine], action: Callable[[Machine], str]) -> dict[str, str]:
    chosen = {machine.name: machine for machine in machines}
    return login.every({name: m.login for name, m in chosen.items()}, lambda name: action(chosen[name]))[1]


def _unconfigure(
    temporary: StateDir, deployment: str, host_set: HostSet, machines: Sequence[Machine], on_line: OnLine
) -> None:
    """Undo the work of Ansible, as far as hosts allow.

    Raises:
        NodesFailed: Hosts refused, and stay configured.
        CommandFailed: Ansible failed.
    """
    refused = adopt(temporary.name, deployment, host_set, machines, key_pair.public_half(temporary.key))
    while adopted := [machine for machine in machines if machine.name not in refused]:
        try:
            _run_removal(temporary, host_set, adopted, on_line)
            break
        except NodesFailed as failed:
            if failed.reasons.keys().isdisjoint(machine.name for machine in adopted):
                raise
            refused |= failed.reasons  # again for the others: Ansible stops early if all hosts of a play fail
    if refused:
        raise NodesFailed("their configuration stays", refused)


def _run_removal(temporary: StateDir, host_set: HostSet, machines: Sequence[Machine], on_line: OnLine) -> None:
    """Let Ansible undo its work on machines that were adopted. Raises NodesFailed or CommandFailed."""
    headless = not any(machine.role == "head" for machine in machines)
    first, *others = sorted(machines, key=lambda machine: machine.role)
    cluster = cluster_of(temporary.name, host_set, [first.model_copy(update={"role": "head"}), *others])
    pinned = pinned_host_keys.pin(temporary, cluster, {}, LOGIN_SECONDS)
    # Jupyter and monitoring may be there: remove both in any case.
    full_inventory = inventory(
        cluster, temporary.key, temporary.known_hosts, pinned, {"jupyter": True, "monitoring": True}
    )
    groups = full_inventory["all"]["children"]
    if headless:  # nothing that only a head has is to be removed
        groups |= {"head": {"hosts": {}}, "workers": {"hosts": {name: {} for name in cluster.nodes}}}
    runner.remove(temporary, full_inventory, on_line)
