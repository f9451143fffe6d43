"""Run the whole playbook by ansible-runner, against addresses on loopback without a node."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator import state
from orchestrator.ansible import environment, runner, shared_ssh_connections
from orchestrator.errors import CommandFailed, NodesFailed
from orchestrator.process import interrupts
from orchestrator.state import cluster_lock
from tests import builders, waiting
from tests.unit.conftest import Start

CONFIGURE = """
import json, sys
from orchestrator.ansible import runner
from orchestrator import state
from orchestrator.state import cluster_lock
with cluster_lock.held(state.for_cluster("demo")):
    runner.configure(state.for_cluster("demo"), json.loads(sys.argv[1]), lambda task: print(task, flush=True))
"""


def inventory_at(port: int) -> dict[str, Any]:
    inventory = builders.inventory(builders.cluster())
    for host in inventory["all"]["hosts"].values():
        host |= {"ansible_host": "127.0.0.1", "ansible_port": port}
    return inventory


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Listen on a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_sending_a_large_image_gets_more_time(tmp_path: Path) -> None:
    (tmp_path / "image.tar.zst").touch()
    os.truncate(tmp_path / "image.tar.zst", 5_000_000_000)
    cluster = builders.cluster()
    assert runner._limit(builders.inventory(cluster)) == runner.SECONDS
    assert runner._limit(builders.inventory(cluster, trainer_archive=str(tmp_path / "gone"))) == runner.SECONDS
    archive = str(tmp_path / "image.tar.zst")
    assert runner._limit(builders.inventory(cluster, trainer_archive=archive)) == runner.SECONDS + 10_000


SLEEP = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Send the image
      ansible.builtin.raw: sleep 60
"""


def test_configuration_without_end_names_its_last_task_and_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SECONDS", 5)
    (tmp_path / "sleeps.yml").write_text(SLEEP)
    inventory = builders.inventory(builders.cluster())
    with pytest.raises(CommandFailed) as caught:
        runner._run(state.for_cluster("demo"), str(tmp_path / "sleeps.yml"), inventory, lambda task: None, "")
    assert "failed (no end within 5 s):" in caught.value.message
    assert "TASK [Send the image]" in caught.value.message
    assert caught.value.hint.endswith("deploy from a machine with a faster connection to the head")


@pytest.mark.parametrize(("jump", "expected"), [(None, "32"), ("student@gate.example.org:22", "8")])
def test_fewer_hosts_at_once_behind_a_jump_host(tmp_path: Path, jump: str | None, expected: str) -> None:
    inventory = builders.inventory(builders.cluster(nodes=12).model_copy(update={"jump": jump}))
    settings = environment.settings(state.for_cluster("demo"), tmp_path, runner._jumps(inventory))
    assert settings["ANSIBLE_FORKS"] == expected


def test_unreachable_nodes_are_named_with_their_reasons(closed_port: int) -> None:
    tasks: list[str] = []
    with pytest.raises(NodesFailed) as caught:
        runner.configure(state.for_cluster("demo"), inventory_at(closed_port), tasks.append)
    assert list(caught.value.reasons) == ["demo-head", "demo-worker-0"]
    assert all("Connection refused" in reason for reason in caught.value.reasons.values())
    assert "`orchestrator deploy --cluster demo` tries again" in caught.value.hint
    assert "Check that the inventory has one head" in tasks[0]
    assert "UNREACHABLE" in state.for_cluster("demo").log("ansible").read_text()


NOTES = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Note what came of it
      ansible.builtin.debug: {msg: "no Grafana\\n  on {{ groups['head'][0] }}"}
      run_once: true
    - name: Note what did not happen
      ansible.builtin.debug: {msg: never}
      when: false
    - name: Note nothing
      ansible.builtin.raw: "true"
      changed_when: false
"""


def test_notes_of_roles_are_returned_one_per_line(tmp_path: Path) -> None:
    (tmp_path / "notes.yml").write_text(NOTES)
    inventory = builders.inventory(builders.cluster())
    inventory["all"]["vars"]["ansible_connection"] = "local"
    recap = runner._run(state.for_cluster("demo"), str(tmp_path / "notes.yml"), inventory, lambda task: None, "")
    assert recap.notes == ["no Grafana on demo-head"]
    assert recap.changed == {"demo-head": 0, "demo-worker-0": 0}


LOOP = """
- hosts: demo-head
  gather_facts: false
  tasks:
    - name: Link the programs
      ansible.builtin.file: {src: "{{ item }}", path: "{{ directory }}/link", state: link}
      loop: ["{{ directory }}", "{{ directory }}/missing"]
"""


def test_failed_item_of_a_loop_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "loop.yml").write_text(LOOP)
    inventory = builders.inventory(builders.cluster(), directory=str(tmp_path))
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory["all"]["vars"] |= local
    with pytest.raises(NodesFailed) as caught:
        runner._run(state.for_cluster("demo"), str(tmp_path / "loop.yml"), inventory, lambda task: None, "")
    reason = caught.value.reasons["demo-head"]
    assert reason.startswith("Link the programs: src file does not exist")
    assert f"{tmp_path}/missing" in reason


IGNORED = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Check something
      ansible.builtin.assert: {that: "'worker' in inventory_hostname", fail_msg: "apt cannot\n read a source"}
      ignore_errors: true
    - name: Need it
      ansible.builtin.raw: "%s"
"""


def test_failure_that_was_ignored_is_part_of_the_reason_of_a_later_one(tmp_path: Path) -> None:
    (tmp_path / "fails.yml").write_text(IGNORED % "echo no package >&2; exit 1")
    inventory = builders.inventory(builders.cluster())
    inventory["all"]["vars"]["ansible_connection"] = "local"
    with pytest.raises(NodesFailed) as caught:
        runner._run(state.for_cluster("demo"), str(tmp_path / "fails.yml"), inventory, lambda task: None, "")
    assert caught.value.reasons == {
        "demo-head": "Need it: no package; before that, apt cannot read a source",
        "demo-worker-0": "Need it: no package",
    }


def test_failure_that_was_ignored_is_a_note_if_all_else_succeeds(tmp_path: Path) -> None:
    (tmp_path / "works.yml").write_text(IGNORED % "true")
    inventory = builders.inventory(builders.cluster())
    inventory["all"]["vars"]["ansible_connection"] = "local"
    recap = runner._run(state.for_cluster("demo"), str(tmp_path / "works.yml"), inventory, lambda task: None, "")
    assert recap.notes == ["apt cannot read a source"]


def test_settings_of_the_users_own_ansible_change_nothing(
    closed_port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each of these settings would break or redirect the playbook."""
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory = /dev/null\nstrategy = no_such_strategy\n")
    monkeypatch.chdir(tmp_path)
    settings = {"ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_STRATEGY": "no_such_strategy", "ANSIBLE_FORKS": "many"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NodesFailed) as caught:
        runner.configure(state.for_cluster("demo"), inventory_at(closed_port), lambda task: None)
    assert list(caught.value.reasons) == ["demo-head", "demo-worker-0"]
    assert {name: os.environ[name] for name in settings} == settings


def works_for(state_dir: Path) -> list[str]:
    """Return names of the programs that work for a cluster."""
    names = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):  # it has ended
            names += [process.name()] if interrupts._works_for(process, state_dir) else []
    return names


def started_configuration(start: Start, port: int) -> "tuple[subprocess.Popen[str], Path]":
    """Start a configuration; return it once it connects to nodes, with the directory of its connections."""
    command = start("-c", CONFIGURE, json.dumps(inventory_at(port)))
    waiting.read_line(command)  # the check of the inventory
    waiting.read_line(command)  # the first task on the nodes
    assert waiting.until(lambda: "ssh" in works_for(state.for_cluster("demo").path))
    return command, shared_ssh_connections.link(state.for_cluster("demo")).readlink()


def test_interrupt_ends_the_configuration_with_all_processes(silent_port: int, start: Start) -> None:
    command, sockets = started_configuration(start, silent_port)
    assert sockets.is_dir()
    command.send_signal(signal.SIGINT)
    assert command.wait(90) == -signal.SIGINT
    assert works_for(state.for_cluster("demo").path) == []
    assert not sockets.exists()


def test_killed_configuration_leaves_no_secret_of_environment(
    silent_port: int, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a password of the cloud"  # noqa: S105
    for name in ("OS_PASSWORD", "GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN", "MY_TOKEN"):
        monkeypatch.setenv(name, secret)
    command, _ = started_configuration(start, silent_port)
    state_dir = state.for_cluster("demo")
    assert list(state_dir.ansible.glob("artifacts/*/command"))
    command.kill()
    command.wait()
    files = [path for path in state_dir.path.rglob("*") if path.is_file()]
    assert [path for path in files if secret in path.read_text(errors="replace")] == []


def test_files_of_a_killed_configuration_are_removed_later(silent_port: int, closed_port: int, start: Start) -> None:
    command, sockets = started_configuration(start, silent_port)
    command.kill()
    command.wait()
    (sockets / "left").touch()
    with cluster_lock.held(state.for_cluster("demo")), pytest.raises(NodesFailed):
        runner.configure(state.for_cluster("demo"), inventory_at(closed_port), lambda task: None)
    assert not sockets.exists()
    assert works_for(state.for_cluster("demo").path) == []


FACTS = """
- hosts: demo-head
  gather_facts: false
  tasks:
    - name: Let the node answer with facts of its choice
      ansible.builtin.ping:
    - name: Show a variable of a role
      ansible.builtin.debug: {msg: "{{ directory }}"}
"""


def test_facts_of_a_compromised_node_set_no_variables(tmp_path: Path) -> None:
    """They would be variables of tasks that run on this machine."""
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ncat > /dev/null\necho \'{"ping": "pong", "ansible_facts": {"directory": "chosen"}}\'\n'
    )
    python.chmod(0o755)
    (tmp_path / "facts.yml").write_text(FACTS)
    inventory = builders.inventory(builders.cluster(), directory="ours")
    inventory["all"]["vars"] |= {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
    recap = runner._run(state.for_cluster("demo"), str(tmp_path / "facts.yml"), inventory, lambda task: None, "")
    assert recap.notes == ["ours"]
