"""Run playbooks over a cluster and collect the result of each host; the only user of ansible-runner."""

import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import assets, process, state, termination
from orchestrator.errors import LAST_LINES, CommandFailed, NodesFailed, command
from orchestrator.lazy import LazyModule
from orchestrator.state import StateDir

if TYPE_CHECKING:
    import ansible_runner
else:
    ansible_runner = LazyModule("ansible_runner")

FORKS = 32
SECONDS = 3600
SOCKETS = "orchestrator-"  # then random letters
LONGEST_RUNTIME = 53  # bytes, of 104: ssh and Ansible add 30, and the name of the directory has 21
# Variables for programs in general, for ssh through the user's jump host, and for gcloud's tunnel.
NEEDED = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PATH|TERM|TZ|TMPDIR|LANG|LC_\w+|XDG_\w+|PYTHONPATH|LD_LIBRARY_PATH|KRB5CCNAME"
    r"|SSH_AUTH_SOCK|SSH_AGENT_PID|SSH_ASKPASS\w*|DISPLAY"
    r"|CLOUDSDK_(?!\w*TOKEN)\w+|(?i:https?_proxy|no_proxy|all_proxy)|SSL_CERT_FILE|REQUESTS_CA_BUNDLE"
    rf"|{termination.OWNER}"
)
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
    watch = _Watch(on_task)
    with _connections(state_dir) as sockets:
        result = _play(state_dir, playbook, _environment(state_dir, sockets), watch)
    log = state_dir.log("ansible")
    shutil.copyfile(result.config.artifact_dir + "/stdout", log)
    if watch.reasons:
        in_order = [*(host for host in inventory["all"]["hosts"] if host in watch.reasons), *watch.reasons]
        hint = f"whole log: {log}; {remedy}"
        raise NodesFailed("configuration failed", {host: watch.reasons[host] for host in in_order}, hint)
    if result.rc:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        raise CommandFailed("configure nodes", ["ansible-playbook", playbook], f"exit code {result.rc}", tail, log)
    changed = (result.stats or {}).get("changed", {})
    return Recap({host: changed.get(host, 0) for host in inventory["all"]["hosts"]}, watch.notes)


class _Watch:
    """Handler of Ansible's events: ``reasons`` of failed hosts, and ``notes`` from `debug` tasks."""

    def __init__(self, on_task: Callable[[str], None]) -> None:
        self.on_task, self.reasons, self.notes = on_task, dict[str, str](), list[str]()

    def __call__(self, event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        if event["event"] == "playbook_on_task_start":
            self.on_task(data["task"])
        if event["event"] in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
            self.reasons[data["host"]] = _reason(data)
        if event["event"] == "runner_on_ok" and data["task_action"] == NOTES:
            self.notes.append(" ".join(str(data["res"]["msg"]).split()))
        return True


def _play(state_dir: StateDir, playbook: str, environment: Mapping[str, str], watch: _Watch) -> Any:
    with _needed_variables(), termination.ending_children():
        return ansible_runner.run(
            private_data_dir=str(state_dir.ansible),
            project_dir=str(assets.directory("ansible")),
            playbook=playbook,
            inventory=str(state_dir.ansible / "inventory.json"),
            envvars=dict(environment),
            suppress_env_files=True,  # else it keeps and prefers the first deploy's environment
            event_handler=watch,
            cancel_callback=lambda: False,  # without one, ansible-runner keeps handling Ctrl-C itself
            rotate_artifacts=5,
            timeout=SECONDS,
            quiet=True,
        )


@contextmanager
def _needed_variables() -> Iterator[None]:
    """Keep only environment variables that Ansible and ssh need.

    ansible-runner passes on all of them, and writes them, including a cloud's password, to a file that a killed deploy
    leaves.
    """
    others = {name: os.environ.pop(name) for name in list(os.environ) if not NEEDED.fullmatch(name)}
    try:
        yield
    finally:
        os.environ.update(others)


@contextmanager
def _connections(state_dir: StateDir) -> Iterator[Path]:
    """Create a directory for the sockets of ssh connections that tasks share; close the connections at the end."""
    forget(state_dir)  # leftovers of a killed deploy
    directory = _runtime() / f"{SOCKETS}{secrets.token_hex(4)}"  # another account cannot guess it and create it first
    _link(state_dir).symlink_to(directory)
    directory.mkdir(mode=0o700)
    try:
        yield directory
    finally:
        for socket in directory.iterdir():
            with suppress(CommandFailed):  # it may be closed already
                process.run(
                    "close a connection", ["ssh", "-F", os.devnull, "-O", "exit", "-o", f"ControlPath={socket}", "node"]
                )
        forget(state_dir)


def _runtime() -> Path:
    """Return a directory for temporary files with a short path: ssh limits the path of a socket to 104 bytes."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    private = runtime.is_absolute() and _is_ours(runtime) and not stat.S_IMODE(runtime.stat().st_mode) & 0o077
    usual = [*([runtime] if private else []), Path(tempfile.gettempdir())]
    return next((path for path in usual if len(os.fsencode(path)) <= LONGEST_RUNTIME), Path("/tmp"))  # noqa: S108


def _is_ours(path: Path) -> bool:
    """Tell whether ``path`` is a directory of this user, and not a link."""
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return False


def _link(state_dir: StateDir) -> Path:
    """Return the path of the link to the directory for sockets, by which the next command finds it."""
    return state_dir.ansible / "sockets"


def forget(state_dir: StateDir) -> None:
    """Remove leftovers of a killed deploy: sockets outside the state directory, and the stored environment."""
    for written in (state_dir.ansible / "artifacts").glob("*/command"):  # it may contain a proxy's password
        written.unlink(missing_ok=True)
    if _link(state_dir).is_symlink():
        directory = _link(state_dir).readlink()
        if directory.name.startswith(SOCKETS) and _is_ours(directory):
            shutil.rmtree(directory, ignore_errors=True)
        _link(state_dir).unlink()


def _environment(state_dir: StateDir, sockets: Path) -> dict[str, str]:
    ours = str(Path(sys.executable).parent)  # ansible-playbook is installed there, whatever the PATH
    settings = state_dir.ansible / "ansible.cfg"
    state.replace(settings, "# Empty, so that no other file with settings is looked for.\n")
    return {
        "PATH": os.pathsep.join([ours, os.environ.get("PATH", os.defpath)]),
        "LC_ALL": "C.UTF-8",  # Ansible refuses a missing locale, which ssh may pass on
        "ANSIBLE_CONFIG": str(settings),
        "ANSIBLE_FORKS": str(FORKS),
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_LOCAL_TEMP": str(state_dir.ansible / "tmp"),
        "ANSIBLE_HOME": str(state_dir.ansible / "home"),
        "ANSIBLE_TIMEOUT": "60",  # sudo's prompt may take that long on a machine that installs packages
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }


def _reason(data: Mapping[str, Any]) -> str:
    """Return one line: the task, and the host's message about it."""
    result = data.get("res", {})
    message = next(
        (result[key] for key in ("stderr", "msg", "module_stderr", "stdout") if result.get(key)), "no message"
    )
    return f"{data['task']}: {' '.join(str(message).split())}"
