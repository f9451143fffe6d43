"""Run playbooks over a cluster and collect the result of each host; the only user of ansible-runner."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import packaged_files, state
from orchestrator.ansible import environment, shared_ssh_connections
from orchestrator.errors import LAST_LINES, CommandFailed, NodesFailed, command
from orchestrator.lazy_imports import LazyModule
from orchestrator.process import interrupts
from orchestrator.state import StateDir

if TYPE_CHECKING:
    import ansible_runner
else:
    ansible_runner = LazyModule("ansible_runner")

SECONDS = 3600  # for all tasks, without the transfer of the trainer image
SLOWEST = 500_000  # bytes per second, over which the image is sent
SLOW = "if the last task sends the image, deploy from a machine with a faster connection to the head"
NOTES = "ansible.builtin.debug"  # roles print notes for the user by such a task


@dataclass(frozen=True)
class Recap:
    """Number of changed tasks by host, and notes of the roles for the user, one line each."""

    changed: dict[str, int]
    notes: list[str]


def configure(state_dir: StateDir, inventory: Mapping[str, Any], on_task: Callable[[str], None]) -> Recap:
    """Run site.yml over ``inventory``.

    Args:
        state_dir: State directory of the cluster.
        inventory: Ansible inventory.
        on_task: Called with the name of each task that starts.

    Returns:
        Changed tasks and notes.

    Raises:
        NodesFailed: Hosts failed, each with its own reason.
        CommandFailed: Ansible failed otherwise.
    """
    return _run(state_dir, "site.yml", inventory, on_task, f"{command('deploy', state_dir.name)} tries again")


def remove(state_dir: StateDir, inventory: Mapping[str, Any], on_task: Callable[[str], None]) -> None:
    """Undo :func:`configure` on machines that stay.

    Args:
        state_dir: State directory of the cluster.
        inventory: Ansible inventory.
        on_task: Called with the name of each task that starts.

    Raises:
        NodesFailed: Hosts failed, each with its own reason.
        CommandFailed: Ansible failed otherwise.
    """
    _run(state_dir, "remove.yml", inventory, on_task, f"{command('teardown', state_dir.name)} tries again")


def _run(
    state_dir: StateDir, playbook: str, inventory: Mapping[str, Any], on_task: Callable[[str], None], remedy: str
) -> Recap:
    state.replace(state_dir.ansible / "inventory.json", json.dumps(inventory, indent=2) + "\n")
    watch, seconds = _Watch(on_task), _limit(inventory)
    with shared_ssh_connections.shared(state_dir) as sockets:
        settings = environment.settings(state_dir, sockets, _jumps(inventory))
        result = _play(state_dir, playbook, settings, watch, seconds)
    log = state_dir.log("ansible")
    shutil.copyfile(result.config.artifact_dir + "/stdout", log)
    if watch.reasons:
        in_order = [*(host for host in inventory["all"]["hosts"] if host in watch.reasons), *watch.reasons]
        hint = f"whole log: {log}; {remedy}"
        raise NodesFailed("configuration failed", {host: watch.reasons[host] for host in in_order}, hint)
    if result.rc:
        why = f"no end within {seconds} s" if result.status == "timeout" else f"exit code {result.rc}"
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        error = CommandFailed("configure nodes", ["ansible-playbook", playbook], why, tail, log)
        error.hint += f"; {SLOW}" if result.status == "timeout" else ""
        raise error
    changed = (result.stats or {}).get("changed", {})
    return Recap({host: changed.get(host, 0) for host in inventory["all"]["hosts"]}, watch.notes)


def _limit(inventory: Mapping[str, Any]) -> int:
    """Return the seconds that Ansible has: a first deploy also sends the archive of the trainer image to the head."""
    archive = Path(inventory["all"]["vars"].get("trainer_archive", ""))
    return SECONDS + (archive.stat().st_size // SLOWEST if archive.is_file() else 0)


def _jumps(inventory: Mapping[str, Any]) -> bool:
    """Tell whether the head, too, is reached through another machine: a jump host of the user, or Google's proxy."""
    groups = inventory["all"]
    return any("ansible_ssh_extra_args" in groups["hosts"][name] for name in groups["children"]["head"]["hosts"])


class _Watch:
    """Handler of Ansible's events: ``reasons`` of failed hosts; ``notes`` of `debug` tasks and of ignored failures."""

    def __init__(self, on_task: Callable[[str], None]) -> None:
        self.on_task, self.reasons, self.notes = on_task, dict[str, str](), list[str]()
        self._ignored: dict[str, str] = {}

    def __call__(self, event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        if event["event"] == "playbook_on_task_start":
            self.on_task(data["task"])
        if event["event"] in ("runner_on_failed", "runner_on_unreachable"):
            self._fail(data["host"], data)
        if event["event"] == "runner_on_ok" and data["task_action"] == NOTES:
            self.notes.append(" ".join(str(data["res"]["msg"]).split()))
        return True

    def _fail(self, host: str, data: Mapping[str, Any]) -> None:
        """Record a failure. One that the playbook ignores may be the cause of a later one, and is a note if not."""
        if data.get("ignore_errors"):
            self._ignored[host] = _message(data)
            self.notes.append(self._ignored[host])
        else:
            before = f"; before that, {self._ignored[host]}" if host in self._ignored else ""
            self.reasons.setdefault(host, f"{data['task']}: {_message(data)}{before}")  # handlers may fail after it


def _play(state_dir: StateDir, playbook: str, variables: Mapping[str, str], watch: _Watch, seconds: int) -> Any:
    with environment.needed_variables(), interrupts.ending_children():
        return ansible_runner.run(
            private_data_dir=str(state_dir.ansible),
            project_dir=str(packaged_files.directory("ansible")),
            playbook=playbook,
            inventory=str(state_dir.ansible / "inventory.json"),
            envvars=dict(variables),
            suppress_env_files=True,  # else it keeps and prefers the first deploy's environment
            event_handler=watch,
            cancel_callback=lambda: False,  # without one, ansible-runner keeps handling Ctrl-C itself
            rotate_artifacts=5,
            timeout=seconds,
            quiet=True,
        )


def _message(data: Mapping[str, Any]) -> str:
    """Return the host's message about a failed task in one line, in a loop that of the first item that failed."""
    whole = data.get("res", {})
    result = next((item for item in whole.get("results", []) if item.get("failed")), whole)
    message = next(
        (result[key] for key in ("stderr", "msg", "module_stderr", "stdout") if result.get(key)), "no message"
    )
    return " ".join(str(message).split())
