"""Adoption of hosts before Ansible runs: an account, a key and a mark."""

import getpass
import socket
from collections.abc import Callable, Sequence

from orchestrator.providers.hosts import login, survey_answers
from orchestrator.providers.hosts.host_set import HostSet, Machine

SCRIPT_SECONDS = 120.0


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
    return on_every_machine(machines, lambda m: as_root(m, "adopt.sh", node=m.name, **words, **ids))


def as_root(machine: Machine, script: str, **words: object) -> str:
    """Run one of this package's scripts as root on a machine and return its output. ``words`` are its variables."""
    return login.run(machine.login, script, root=True, seconds=SCRIPT_SECONDS, **words)


def on_every_machine(machines: Sequence[Machine], action: Callable[[Machine], str]) -> dict[str, str]:
    """Run ``action`` for all machines side by side and return the reasons of failures, by node."""
    chosen = {machine.name: machine for machine in machines}
    return login.every({name: m.login for name, m in chosen.items()}, lambda name: action(chosen[name]))[1]
