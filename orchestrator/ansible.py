"""The only user of ansible-runner: the playbook run over a cluster, and what it says of each host."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner

from orchestrator import assets, process, state
from orchestrator.errors import CommandFailed, NodesFailed
from orchestrator.state import Home

FORKS = 32


@dataclass(frozen=True)
class Recap:
    """How many tasks changed something, by host."""

    changed: dict[str, int]


def configure(place: Home, inventory: Mapping[str, Any], on_task: Callable[[str], None]) -> Recap:
    """Run site.yml over ``inventory``. Raises NodesFailed with each failing host's own reason, and CommandFailed."""
    state.replace(place.ansible / "inventory.json", json.dumps(inventory, indent=2) + "\n")
    reasons: dict[str, str] = {}

    def watch(event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        if event["event"] == "playbook_on_task_start":
            on_task(data["task"])
        if event["event"] in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
            reasons[data["host"]] = _reason(data)
        return True

    with _connections() as sockets:
        result = ansible_runner.run(
            private_data_dir=str(place.ansible),
            project_dir=str(assets.directory("ansible")),
            playbook="site.yml",
            inventory=str(place.ansible / "inventory.json"),
            envvars=_environment(place, sockets),
            suppress_env_files=True,  # it would keep the first deploy's environment, and prefer it for ever
            event_handler=watch,
            rotate_artifacts=5,
            quiet=True,
        )
    log = place.log("ansible")
    shutil.copyfile(result.config.artifact_dir + "/stdout", log)
    if reasons:
        raise NodesFailed("configuration failed", reasons, f"whole log: {log}; `orchestrator deploy` tries again")
    if result.rc:
        tail = log.read_text().splitlines()[-20:]
        raise CommandFailed("configure nodes", ["ansible-playbook", "site.yml"], f"exit code {result.rc}", tail, log)
    changed = (result.stats or {}).get("changed", {})
    return Recap({host: changed.get(host, 0) for host in inventory["all"]["hosts"]})


@contextmanager
def _connections() -> Iterator[Path]:
    """A directory for the sockets of ssh connections that tasks share; they are closed on the way out.

    It has a short name: the path of a socket has 108 characters at most.
    """
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as directory:
        try:
            yield Path(directory)
        finally:
            for socket in Path(directory).iterdir():
                with suppress(CommandFailed):  # it may have closed by itself
                    process.run("close a connection", ["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "node"])


def _environment(place: Home, sockets: Path) -> dict[str, str]:
    ours = str(Path(sys.executable).parent)  # where ansible-playbook was installed with us, whatever the PATH
    return {
        "PATH": os.pathsep.join([ours, os.environ.get("PATH", os.defpath)]),
        "ANSIBLE_FORKS": str(FORKS),
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_LOCAL_TEMP": str(place.ansible / "tmp"),
        "ANSIBLE_HOME": str(place.ansible / "home"),
        "ANSIBLE_TIMEOUT": "20",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }


def _reason(data: Mapping[str, Any]) -> str:
    """One line: the task, and what the host said about it."""
    result = data.get("res", {})
    said = next((result[key] for key in ("stderr", "msg", "module_stderr", "stdout") if result.get(key)), "no message")
    return f"{data['task']}: {' '.join(str(said).split())}"
