"""Release of hosts: undo what a deploy installed, then remove its account, key and mark."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from orchestrator import progress, state
from orchestrator.ansible import runner, shared_ssh_connections
from orchestrator.ansible.inventory import inventory
from orchestrator.errors import NodesFailed
from orchestrator.progress import log_errors
from orchestrator.providers.hosts.adoption import adopt, as_root, on_every_machine
from orchestrator.providers.hosts.host_set import HostSet, Machine, cluster_of
from orchestrator.providers.hosts.survey_answers import ACCOUNT
from orchestrator.ssh import key_pair, pinned_host_keys
from orchestrator.state import StateDir

LOGIN_SECONDS = 20.0  # a host that was just adopted answers at once
MARK = "/etc/orchestrator/deployment"  # written by adopt.sh
OnLine = Callable[[str], None]


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
    kept = on_every_machine(
        machines, lambda m: as_root(m, "release.sh", id=deployment, configured="yes" * (m.name in configured))
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
