"""Damaged files of the state directory: commands name the file, and a damaged run hides no other."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.errors import ConfigError
from orchestrator.runs import store
from orchestrator.schema import RunStatus
from orchestrator.state import StateDir, cluster_lock
from tests import builders
from tests.stand_ins.hostile import assert_no_bug, assert_refused
from tests.unit.conftest import COMMAND, Cli

READERS = ("status", "inventory", "teardown", "deploy", "runs")
DAMAGE: dict[str, Any] = {
    "empty": b"",
    "binary": b"\xff\x00\xfe",
    "deep": b'{"version": 1, "config": ' + b"[" * 100_000,
    "cut": lambda content: content[: len(content) // 2],
    "five": b"5",
    "null": b"null",
    "list": b"[]",
    "digits": b'{"version": ' + b"9" * 5000 + b"}",
    "nan": b'{"version": NaN}',
    "twice": lambda content: content.replace(b'"id":', b'"id": "x", "id":', 1),
    "surrogate": lambda content: content.replace(b"1a2b3c4d", b"\\ud800"),
    "no provider": lambda content: content.replace(b'"provider"', b'"giver"', 1),
    "unknown provider": lambda content: content.replace(b'"local"', b'"aws"', 1),
    "section": lambda content: content.replace(b'"variables": {', b'"variables": {"local": 5', 1),
    "no head": lambda content: content.replace(b'"head"', b'"worker"'),
}


def damage(path: Path, kind: Any) -> None:
    content = kind(path.read_bytes()) if callable(kind) else kind
    assert not path.exists() or content != path.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_state_is_named_with_its_remedy(cli: Cli, kind: str, command: str) -> None:
    state_dir = builders.deployed()
    damage(state_dir.record, DAMAGE[kind])
    assert_refused(cli(command), str(state_dir.record), "restore it from a copy", "teardown --orphans", codes=(1,))


def test_state_that_is_a_directory_is_named(cli: Cli) -> None:
    state_dir = builders.deployed()
    state_dir.record.unlink()
    state_dir.record.mkdir()
    for command in READERS:
        assert_refused(cli(command), f"{state_dir.record}: is a directory", codes=(2,))


HOSTS: list[Any] = [
    *(None, 5, -1, 0, True, "", "x", [], [5], {}, {"machines": 5}, {"machines": [{}]}, {"machines": [{"login": []}]}),
    {"machines": [{"name": "a", "role": "head", "login": {"address": "\0"}}], "storage": "nfs", "trainer": "container"},
    {"machines": [{"name": "a", "role": "head", "login": {"address": "a"}, "port": 1e30}]},
    {"machines": [], "leaving": {}, "storage": "nfs", "trainer": "container"},
]


@pytest.mark.parametrize("value", HOSTS, ids=repr)
def test_damaged_hosts_of_a_state_are_named_by_teardown(cli: Cli, value: Any) -> None:
    state_dir = builders.deployed()
    content = json.loads(state_dir.record.read_text())
    changes = {"config": {**content["config"], "provider": "hosts"}, "variables": {"hosts": value}}
    state_dir.record.write_text(json.dumps({**content, **changes}))
    assert_refused(cli("teardown"), str(state_dir.record), "variables.hosts", "restore it from a copy", codes=(1,))
    assert state.cluster_names() == ["default"]


def finished_run(state_dir: StateDir, name: str) -> Path:
    directory = state_dir.runs / name
    state.replace(directory / "run.json", builders.run(id=name).model_dump_json())
    RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0).write(directory / "status.json")
    (directory / "log").write_text(f"words of {name}\n")
    return directory


@pytest.mark.parametrize(
    "kind",
    [
        *(DAMAGE[name] for name in ("empty", "binary", "deep", "cut", "five", "null", "list", "digits", "nan")),
        lambda content: content.replace(b'"started":1.0', b'"started":1e30'),
        lambda content: content.replace(b'"started":1.0', b'"started":1e999'),
        lambda content: content.replace(b'"started":1.0', b'"started":-1e18'),
        lambda content: content.replace(b'"id":"b"', b'"id":"../../b"'),
        lambda content: content.replace(b'"np":2', b'"np":[]'),
    ],
)
def test_damaged_record_of_a_run_hides_no_other_run(cli: Cli, kind: Any) -> None:
    state_dir = builders.deployed()
    finished_run(state_dir, "a")
    damaged = finished_run(state_dir, "b") / "run.json"
    damage(damaged, kind)
    listed = cli("runs")
    assert (listed.returncode, len(listed.stdout.splitlines())) == (0, 2)
    assert f"left out: {damaged}: " in listed.stderr
    assert len(listed.stderr) < 1000
    assert [run["id"] for run in json.loads(cli("runs", "--json").stdout)] == ["a"]
    assert cli("logs", "a").stdout == cli("logs").stdout == "words of a\n"
    assert cli("results", "a").returncode == 0
    for command in ("logs", "results", "metrics", "stop"):
        assert_refused(cli(command, "b"), str(damaged), codes=(1,))


@pytest.mark.parametrize("name", ["empty", "binary", "deep", "cut", "five", "null", "list", "digits", "nan"])
def test_damaged_status_of_a_run_hides_no_run(cli: Cli, name: str) -> None:
    state_dir = state.for_cluster("default")
    finished_run(state_dir, "a")
    damage(finished_run(state_dir, "b") / "status.json", DAMAGE[name])
    listed = cli("runs")
    assert (listed.returncode, len(listed.stdout.splitlines())) == (0, 3)
    assert cli("logs", "a").stdout == "words of a\n"
    for command in ("logs", "results", "metrics", "stop"):
        assert_no_bug(cli(command, "b"))


@pytest.mark.parametrize("name", ["empty", "binary", "deep", "cut", "five", "null", "list", "digits", "nan"])
def test_damaged_results_are_named(cli: Cli, name: str) -> None:
    directory = finished_run(state.for_cluster("default"), "a")
    builders.results([builders.epoch(1)]).write(directory / "results.json")
    damage(directory / "results.json", DAMAGE[name])
    for arguments in (["results"], ["results", "--json"], ["results", "--plot", "picture.svg"]):
        assert_refused(cli(*arguments), str(directory / "results.json"), codes=(1,))


@pytest.mark.parametrize("world", [b'{"size": 0, "hosts": []}', b'{"size": 2, "hosts": ["here"]}'])
def test_results_without_a_host_for_each_rank_are_named(cli: Cli, world: bytes) -> None:
    directory = finished_run(state.for_cluster("default"), "a")
    builders.results([builders.epoch(1)]).write(directory / "results.json")
    damage(directory / "results.json", lambda content: re.sub(rb'(?s)(?<="world": )\{.*?\}', world, content))
    assert_refused(cli("results"), str(directory / "results.json"), "world", codes=(1,))


def test_log_that_is_missing_or_a_directory_is_named(cli: Cli) -> None:
    log = finished_run(state.for_cluster("default"), "a") / "log"
    log.unlink()
    assert_refused(cli("logs"), f"{log} cannot be read: No such file", codes=(1,))
    log.mkdir()
    assert_refused(cli("logs"), f"{log} cannot be read: Is a directory", codes=(1,))


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00" * 50, b"garbage\n" * 5, b"[x]:y ssh-rsa !!!\n", b"demo ssh-rsa AAAA\n"]
)
@pytest.mark.parametrize("file", [lambda state_dir: state_dir.known_hosts, lambda state_dir: state_dir.key])
def test_damaged_key_or_known_hosts_causes_no_traceback(
    cli: Cli, file: Callable[[StateDir], Path], content: bytes
) -> None:
    state_dir = builders.deployed()
    state.replace(state_dir.known_hosts, "")
    damage(file(state_dir), content or b"\n")
    finished_run(state_dir, "a")
    for command in ("status", "check", "stop", "inventory", "runs"):
        assert_no_bug(cli(command))


@pytest.mark.parametrize("name", ["lock", "starting"])
def test_damaged_lock_file_blocks_no_command(name: str) -> None:
    state_dir = builders.deployed()
    (state_dir.path / name).write_bytes(b"\xff\x00" * 1000)
    with cluster_lock.held(state_dir):
        pass


def test_damaged_lock_file_in_use_is_shown_in_part(cli: Cli) -> None:
    state_dir = builders.deployed()
    with cluster_lock.held(state_dir):
        (state_dir.path / "lock").write_bytes(b"\xff" * 100_000)
        assert_refused(cli("teardown"), "is locked by", codes=(1,))


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"5", b'{"password": 5}', b"[" * 100_000])
def test_damaged_password_is_named_and_not_shown(cli: Cli, content: bytes) -> None:
    state_dir = builders.deployed()
    for path in (state_dir.notebook, state_dir.monitoring):
        damage(path, content or b" ")
    record = builders.read_record(state_dir)
    state.write(state_dir, record.model_copy(update={"config": {**record.config, "jupyter": True}}))
    assert_refused(cli("notebook"), str(state_dir.notebook), "holds no password", codes=(1,))


@pytest.mark.parametrize("base", ["/proc/x", "/dev/null/x", "/dev/full"])
def test_state_directory_that_cannot_be_created_is_named(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", base)
    state_dir = state.for_cluster("demo")
    uses: list[Callable[[], Any]] = [
        lambda: state.replace(state_dir.record, "x"),
        lambda: cluster_lock.held(state_dir).__enter__(),
        lambda: state_dir.log("terraform"),
    ]
    for use in uses:
        with pytest.raises(ConfigError, match=base) as caught:
            use()
        assert "XDG_STATE_HOME" in caught.value.hint


def test_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        state.replace(tmp_path / "file", "\ud800")
    assert list(tmp_path.iterdir()) == []


def without_access(directory: Path, here: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that may not read ``directory``, also if this user is root."""
    limits = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    directory.chmod(0)
    try:
        return subprocess.run([*limits, COMMAND, *arguments], cwd=here, capture_output=True, text=True, check=False)
    finally:
        directory.chmod(0o700)


def test_run_whose_directory_cannot_be_read_is_named(tmp_path: Path) -> None:
    state_dir = builders.deployed()
    for run in ("a", "b"):
        store.save(state_dir, builders.run(id=run))
    finished = without_access(state_dir.runs / "a", tmp_path, "runs")
    assert f"left out: {state_dir.runs}/a/run.json: Permission denied" in finished.stderr
    assert [line.split()[0] for line in finished.stdout.splitlines()] == ["run", "b"]


def test_runs_that_cannot_be_listed_are_no_empty_list(tmp_path: Path) -> None:
    state_dir = builders.deployed()
    store.save(state_dir, builders.run())
    finished = without_access(state_dir.runs, tmp_path, "runs")
    assert_refused(finished, f"{state_dir.runs}: Permission denied", "XDG_STATE_HOME")
