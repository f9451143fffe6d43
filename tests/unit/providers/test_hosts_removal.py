"""Hosts that cannot be restored: messages, and the local files that are removed anyway."""

import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.ansible import runner
from orchestrator.errors import CommandFailed, NodesFailed, OrchestratorError
from orchestrator.providers import hosts
from orchestrator.providers.hosts import restore_hosts
from orchestrator.providers.hosts.host_set import HostSet, Machine
from orchestrator.providers.hosts.login import Login
from orchestrator.ssh import pinned_host_keys
from orchestrator.state import Record
from tests import builders
from tests.unit.conftest import StandIn

MACHINES = [
    Machine(name=name, role=role, login=Login(address=address), id=f"id-of-{address}", private_address=address)
    for name, role, address in (("demo-head", "head", "10.0.0.10"), ("demo-worker-0", "worker", "10.0.0.11"))
]
GIVEN = HostSet(machines=MACHINES, storage="mounted", trainer="installed", uid=700, gid=700)


def test_hosts_that_cannot_be_restored_are_named_with_reasons() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        inventory = builders.inventory(builders.cluster())
        for host in inventory["all"]["hosts"].values():
            host |= {"ansible_host": "127.0.0.1", "ansible_port": unused.getsockname()[1]}
        with pytest.raises(NodesFailed) as caught:
            runner.remove(state.for_cluster("demo"), inventory, lambda task: None)
    assert list(caught.value.reasons) == ["demo-head", "demo-worker-0"]
    assert "`orchestrator teardown --cluster demo` tries again" in caught.value.hint


def test_unreachable_hosts_keep_their_files_and_are_named(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in("ssh", "echo no, never >&2; exit 1")
    state_dir = state.for_cluster("demo")
    restore_hosts.release(
        state_dir, "1a2b3c4d", GIVEN, dict(zip(MACHINES, (True, False), strict=True)), lambda line: None
    )
    messages = capsys.readouterr().err
    assert "removing the configuration: their configuration stays: demo-head" in messages
    assert "demo-head still has what the deploy installed: no, never" in messages
    assert "demo-worker-0 still has what the deploy installed: it does not answer" in messages
    assert not list(Path(state_dir.path).rglob("id_ed25519")), "the key of a removal is deleted with it"


def test_teardown_reports_unreachable_hosts_as_left(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in("ssh", "exit 255")
    deployed = Record(id="1a2b3c4d", config={}, variables={"hosts": GIVEN.model_dump(mode="json")})
    hosts.destroy(state.for_cluster("demo"), deployed, lambda line: None)
    assert [(str(resource), resource.usable) for resource in hosts.list_resources(deployed)] == [
        ("host 10.0.0.10 (demo-head)", False),
        ("host 10.0.0.11 (demo-worker-0)", False),
    ]
    assert capsys.readouterr().err.count("it does not answer") == 2


# Hosts that keep their mark if `configured` is set; what it is set to is written to a file of the host's address.
RELEASE = """
for word; do address=$command command=$word; done
set -- $command
script=$(echo "$2" | /usr/bin/base64 -d)
case $script in
  *"Undoes adopt.sh"*) ;;
  *) exit 0 ;;
esac
case $script in
  *configured=yes*) echo yes > "$DIRECTORY/$address"; echo its configuration could not be removed >&2; exit 1 ;;
  *) echo > "$DIRECTORY/$address" ;;
esac
"""


@pytest.fixture
def released(stand_in: StandIn, tmp_path: Path) -> Path:
    """Return the directory with the variable `configured` of each host's release.sh."""
    (tmp_path / "released").mkdir()
    stand_in("ssh", f"DIRECTORY={tmp_path / 'released'}\n{RELEASE}")
    return tmp_path / "released"


def variables(released: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in released.iterdir()}


def remove(
    monkeypatch: pytest.MonkeyPatch, pin: list[OrchestratorError], ansible: list[OrchestratorError]
) -> list[Any]:
    """Remove both hosts; pin and Ansible fail with these errors first. Return the hosts that Ansible was called for."""
    played: list[Any] = []

    def pinned(temporary: Any, cluster: Any, keys: Any, deadline: float) -> dict[str, str]:
        if pin:
            raise pin.pop()
        return builders.host_keys(cluster)

    def play(temporary: Any, inventory: Any, on_line: Any) -> None:
        played.append((list(inventory["all"]["hosts"]), list(inventory["all"]["children"]["head"]["hosts"])))
        if ansible:
            raise ansible.pop()

    monkeypatch.setattr(pinned_host_keys, "pin", pinned)
    monkeypatch.setattr(runner, "remove", play)
    machines = [machine.model_copy(update={"address": machine.login.address}) for machine in MACHINES]
    restore_hosts.release(
        state.for_cluster("demo"), "1a2b3c4d", GIVEN, dict.fromkeys(machines, True), lambda line: None
    )
    return played


def test_host_that_refuses_the_account_is_left_and_the_others_are_restored(
    monkeypatch: pytest.MonkeyPatch, released: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = remove(monkeypatch, [NodesFailed("no ssh", {"demo-worker-0": "it refuses the login"})], [])
    assert played == [(["demo-head"], ["demo-head"])]
    assert variables(released) == {"10.0.0.10": "", "10.0.0.11": "yes"}
    messages = capsys.readouterr().err
    assert "demo-worker-0 still has what the deploy installed: it refuses the login" in messages
    assert "demo-head still" not in messages
    assert "`sudo rm /etc/orchestrator/deployment`" in messages


def test_ansible_runs_again_without_the_host_that_failed(monkeypatch: pytest.MonkeyPatch, released: Path) -> None:
    played = remove(monkeypatch, [], [NodesFailed("configuration failed", {"demo-head": "Unmount: busy"})])
    assert played == [(["demo-head", "demo-worker-0"], ["demo-head"]), (["demo-worker-0"], [])]
    assert variables(released) == {"10.0.0.10": "yes", "10.0.0.11": ""}


def test_no_host_loses_its_mark_if_ansible_fails(monkeypatch: pytest.MonkeyPatch, released: Path) -> None:
    remove(monkeypatch, [], [CommandFailed("configure nodes", ["ansible-playbook"], 4, [])])
    assert variables(released) == {"10.0.0.10": "yes", "10.0.0.11": "yes"}


def release(machine: Path, account: str, configured: str = "") -> int:
    """Run release.sh with the directories of ``machine``, and return its exit code."""
    script = Path(hosts.__file__).with_name("release.sh").read_text()
    script = script.replace("account=orchestrator", f"account={account}").replace("PATH=/", f"PATH={machine}/bin:/")
    for directory in ("/etc/", "/var/lib/", "/root/", "/shared"):
        script = script.replace(directory, f"{machine}{directory}")
    variables = {**os.environ, "id": "1a2b3c4d", "configured": configured}
    return subprocess.run(["sh", "-c", script], env=variables, check=False).returncode


@pytest.mark.parametrize(
    ("configured", "files", "code"),
    [("yes", ["var/lib/orchestrator/data"], 1), ("yes", ["etc/hosts"], 1), ("yes", [], 0), ("", ["etc/hosts"], 0)],
)
def test_configured_machine_keeps_its_mark(tmp_path: Path, configured: str, files: list[str], code: int) -> None:
    """A machine that Ansible never reached has only the mark, which release.sh removes in any case."""
    mark = tmp_path / "etc" / "orchestrator" / "deployment"
    mark.parent.mkdir(parents=True)
    mark.write_text("id 1a2b3c4d\nnode demo-worker-0\naccount found\n")
    (tmp_path / "var" / "lib" / "orchestrator").mkdir(parents=True)  # a mount of the owner: a teardown leaves it, empty
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# BEGIN ORCHESTRATOR BLOCK\n")
    assert (release(tmp_path, "no-such-account", configured), mark.exists()) == (code, bool(code))


def test_account_whose_home_was_never_created_is_released(tmp_path: Path) -> None:
    mark = tmp_path / "etc" / "orchestrator" / "deployment"
    mark.parent.mkdir(parents=True)
    mark.write_text("id 1a2b3c4d\nnode demo-worker-0\naccount found\nkeys made\n")
    getent = tmp_path / "bin" / "getent"
    getent.parent.mkdir()
    getent.write_text(f"#!/bin/sh\necho lab:x:700:700::{tmp_path}/home/lab:/bin/bash\n")
    getent.chmod(0o755)
    assert (release(tmp_path, "lab"), mark.exists()) == (0, False)


@pytest.mark.parametrize(
    ("node", "mode"), [("demo-head", 0o750), ("demo-head-1a2b", 0o750), ("my-head-worker-0", 0o755)]
)
def test_shared_of_a_head_gets_its_mode_back_also_if_another_deploy_releases_it(
    tmp_path: Path, node: str, mode: int
) -> None:
    mark = tmp_path / "etc" / "orchestrator" / "deployment"
    mark.parent.mkdir(parents=True)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    mark.write_text(f"id 1a2b3c4d\nnode {node}\naccount found\nshared 750 {os.getuid()}:{os.getgid()}\n")
    assert release(tmp_path, "no-such-account") == 0
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == mode


def test_what_a_teardown_leaves_is_no_cluster(stand_in: StandIn) -> None:
    """A head that is gone for good must not prevent a deploy with another one."""
    stand_in("ssh", "exit 255")
    state_dir = builders.deployed("demo", provider="hosts")
    record = builders.read_record(state_dir).model_copy(update={"variables": {"hosts": GIVEN.model_dump(mode="json")}})
    hosts.destroy(state_dir, record, lambda line: None)
    left = builders.read_record(state_dir)
    assert left.cluster is None
    assert len(hosts.list_resources(left)) == 2
