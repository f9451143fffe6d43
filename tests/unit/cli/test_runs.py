"""Commands for runs that were started, on a stand-in for the head: `logs -f`, and files of a run in progress."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.cli import reproduction
from orchestrator.config import Config
from orchestrator.runs import run_record, store
from orchestrator.schema import CheckpointEntry, Checkpoints, Failure, RunStatus
from orchestrator.state import Record, StateDir, cluster_lock
from tests import builders
from tests.stand_ins import ssh_stand_in
from tests.unit.conftest import Cli, interrupt_commands

FAILURE = Failure(reason="rank", host="demo-head", rank=0, exit_code=3, lines=["ValueError: x"])
RUN = builders.run(id="a")


def status(word: str, exit_code: int, failure: Failure | None = None) -> RunStatus:
    return RunStatus.model_validate(
        {"state": word, "exit_code": exit_code, "started": 1.0, "ended": 2.0, "failure": failure}
    )


@pytest.fixture
def on_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of run a, with a checkpoint, on a head whose shared storage is a local directory."""
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    directory = Path(run_record.directory("a"))
    (directory / "checkpoints" / "epoch-0001").mkdir(parents=True)
    (directory / "checkpoints" / "epoch-0001" / "state").write_text("weights")
    entry = CheckpointEntry(name="epoch-0001", epoch=1, step=1, world=1, whole=True)
    Checkpoints(entries=[entry], best="epoch-0001").write(directory / "checkpoints" / "index.json")
    (directory / "log").write_text("a line\n")
    return directory


@pytest.fixture
def interrupting() -> list[str]:
    """Return a list of parts of commands: one on the head that contains a part interrupts the command here."""
    return []


@pytest.fixture
def state_dir(on_head: Path, interrupting: list[str]) -> Iterator[StateDir]:
    """Yield the state directory of cluster demo, whose head runs run a until its status is there."""

    def answer(command: str) -> bytes | None:
        if any(part in command for part in interrupting):
            interrupt_commands()
        if "list-units" in command:
            ended = (on_head / "status.json").exists()
            return b"" if ended else b"orchestrator-a.service loaded active running -\n"
        return b"0\n" if "MainPID" in command else None

    with ssh_stand_in.listening(answer) as (port, host_key):
        yield record(port, host_key)


def record(port: int, host_key: str) -> StateDir:
    """Record cluster demo, whose head listens on ``port``, and run a; return the state directory."""
    state_dir, cluster = ssh_stand_in.deployed(port, host_key)
    keys = {node.id: host_key for node in cluster.nodes.values()}
    config = Config(name="demo", nodes=1, monitoring={"enabled": False}).model_dump(mode="json")
    state.write(state_dir, Record(id="1a2b3c4d", config=config, cluster=cluster, host_keys=keys))
    store.save(state_dir, RUN)
    return state_dir


def files(state_dir: StateDir) -> set[str]:
    directory = state_dir.runs / "a"
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()} - {".lock", "run.json"}


@pytest.mark.parametrize(
    ("ended", "code", "words"),
    [
        (status("finished", 0), 0, ""),
        (status("failed", 1, FAILURE), 1, "run a failed: rank 0 on demo-head ended with exit code 3: ValueError: x"),
        (status("stopped", 75), 75, "run a was stopped"),
    ],
)
def test_following_the_log_fetches_the_files_and_ends_like_the_run(
    cli: Cli, state_dir: StateDir, on_head: Path, ended: RunStatus, code: int, words: str
) -> None:
    ended.write(on_head / "status.json")
    finished = cli("logs", "-f", "a", "--cluster", "demo")
    assert (finished.returncode, finished.stdout) == (code, "a line\n")
    assert files(state_dir) == {"log", "status.json", "checkpoints/index.json", "checkpoints/epoch-0001/state"}
    message = " ".join(finished.stderr.split())
    assert words in message
    assert ("`orchestrator train --resume a --cluster demo` continues" in message) is (code != 0)
    assert "`orchestrator logs" not in message


@pytest.mark.parametrize(
    ("ended", "code"), [(status("finished", 0), 0), (status("failed", 1), 1), (status("stopped", 75), 75)]
)
def test_following_a_fetched_log_ends_like_the_run(
    cli: Cli, state_dir: StateDir, on_head: Path, ended: RunStatus, code: int
) -> None:
    ended.write(on_head / "status.json")
    assert cli("results", "--cluster", "demo").returncode == 0
    state.forget(state_dir)
    finished = cli("logs", "-f", "--cluster", "demo")
    assert (finished.returncode, finished.stdout) == (code, "a line\n")
    assert (f"run a has ended: {ended.state}" in finished.stderr) is (code != 0)
    assert "`orchestrator logs" not in finished.stderr
    assert cli("logs", "--cluster", "demo").returncode == 0


@pytest.mark.parametrize("word", ["failed", "stopped"])
def test_code_75_of_a_script_is_no_run_to_resume(cli: Cli, state_dir: StateDir, on_head: Path, word: str) -> None:
    store.save(state_dir, builders.run(id="a", kind="script"))
    status(word, 75, FAILURE if word == "failed" else None).write(on_head / "status.json")
    assert cli("logs", "-f", "a", "--cluster", "demo").returncode == 1


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("tail ", "run a continues: `orchestrator logs -f a --cluster demo` follows it"),
        ("find ", "run a has ended; `orchestrator results a --cluster demo` fetches its files"),
    ],
)
@pytest.mark.usefixtures("state_dir")
def test_interrupted_follower_says_whether_the_run_continues(
    cli: Cli, on_head: Path, interrupting: list[str], command: str, note: str
) -> None:
    status("finished", 0).write(on_head / "status.json")
    interrupting.append(command)
    finished = cli("logs", "-f", "a", "--cluster", "demo")
    message = " ".join(finished.stderr.split())
    assert finished.returncode == 130
    assert note in message
    assert ("continues" in message) is (command == "tail ")


@pytest.mark.usefixtures("on_head")
def test_results_of_a_run_in_progress_leave_its_checkpoints(cli: Cli, state_dir: StateDir) -> None:
    finished = cli("results", "--cluster", "demo", "--json")
    assert (finished.returncode, json.loads(finished.stdout)["state"]) == (0, "running")
    assert files(state_dir) == {"log"}


@pytest.mark.usefixtures("on_head")
def test_export_of_a_run_in_progress_leaves_its_checkpoints(state_dir: StateDir) -> None:
    reproduction._fetch(state_dir, builders.read_record(state_dir), RUN)
    assert files(state_dir) == {"log"}


def test_stop_does_not_call_a_run_lost_that_another_command_starts(cli: Cli, on_head: Path) -> None:
    """The run is recorded, and its unit does not exist yet."""
    with ssh_stand_in.listening(lambda command: b"" if "list-units" in command else None) as (port, host_key):
        state_dir = record(port, host_key)
        with cluster_lock.starting(state_dir):
            refused = cli("stop", "--cluster", "demo")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cluster 'demo' is locked by pid" in refused.stderr


def test_stop_without_a_name_names_the_active_run_that_a_slow_clock_dates_earlier(cli: Cli, on_head: Path) -> None:
    units = b"orchestrator-b.service loaded active running python\n"
    with ssh_stand_in.listening(lambda command: units if "list-units" in command else None) as (port, host_key):
        state_dir = record(port, host_key)
        store.save(state_dir, RUN.model_copy(update={"id": "b", "started": RUN.started - 3600}))
        state.replace(state_dir.runs / "a" / "status.json", status("finished", 0).model_dump_json())
        refused = cli("stop", "--cluster", "demo")
        named = cli("stop", "a", "--cluster", "demo")
    assert (refused.returncode, refused.stdout) == (1, "")
    message = " ".join(refused.stderr.split())
    assert "run a, the newest by the clock of the machine that started it, is not active; b is" in message
    assert "`orchestrator stop b --cluster demo` stops that one" in message
    assert (named.returncode, named.stdout) == (0, "run a: finished\n")


def test_stop_says_where_a_run_of_another_machine_can_be_ended(cli: Cli) -> None:
    units = b"orchestrator-b.service loaded active running python\n"
    with ssh_stand_in.listening(lambda command: units if "list-units" in command else None) as (port, host_key):
        record(port, host_key)
        refused = cli("stop", "b", "--cluster", "demo")
        unknown = cli("stop", "c", "--cluster", "demo")
    message = " ".join(refused.stderr.split())
    assert (refused.returncode, unknown.returncode) == (1, 1)
    assert "run b was started with another state directory, which alone has its record" in message
    assert "on the head (`orchestrator ssh --cluster demo`) `sudo systemctl stop orchestrator-b` ends it" in message
    assert "no run 'c'" in unknown.stderr
