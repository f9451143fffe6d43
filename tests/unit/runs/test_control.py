"""Runs as recorded on this machine."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed, StateError
from orchestrator.runs import control, run_record, store
from orchestrator.runs.control import end_runs
from orchestrator.runs.run_record import Run
from orchestrator.schema import Failure, RunStatus
from orchestrator.state import StateDir
from tests import builders
from tests.stand_ins import cutting_relay, ssh_stand_in
from tests.stand_ins.ssh_stand_in import Answer


def record_run(run_id: str, started: float, status: RunStatus | None = None) -> None:
    state_dir = state.for_cluster("demo")
    state.replace(state_dir.runs / run_id / "run.json", builders.run(id=run_id, started=started).model_dump_json())
    if status:
        status.write(state_dir.runs / run_id / "status.json")


def test_runs_are_listed_oldest_first() -> None:
    record_run("b", started=1.0)
    record_run("a", started=2.0)
    assert [run.id for run in store.list_runs(state.for_cluster("demo"))] == ["b", "a"]


def test_newest_run_is_the_default() -> None:
    record_run("old", started=1.0)
    record_run("new", started=2.0)
    assert store.get(state.for_cluster("demo"), None).id == "new"
    assert store.get(state.for_cluster("demo"), "old").id == "old"


def test_unknown_run_is_refused_with_the_nearest_name() -> None:
    record_run("resnet20-mnist-1", started=1.0)
    with pytest.raises(StateError, match="no run 'resnet20-minst-1', did you mean resnet20-mnist-1"):
        store.get(state.for_cluster("demo"), "resnet20-minst-1")


def test_cluster_without_runs_names_the_commands_that_start_one() -> None:
    with pytest.raises(StateError, match="has no runs yet") as caught:
        store.get(state.for_cluster("demo"), None)
    assert "orchestrator train" in caught.value.hint


def test_fetched_status_of_a_run_is_final() -> None:
    status = RunStatus(state="stopped", exit_code=143, started=1.0, ended=2.0)
    record_run("a", started=1.0, status=status)
    record_run("b", started=2.0)
    assert [run_state.state for run_state in control.overview(state.for_cluster("demo"), None)] == ["stopped", "lost"]
    assert store.is_collected(state.for_cluster("demo"), builders.run(id="a"))
    assert not store.is_collected(state.for_cluster("demo"), builders.run(id="b"))


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Failure(reason="host", host="10.0.0.11"), "node demo-worker-0 stopped answering"),
        (
            Failure(reason="host", host="10.0.0.11", hosts=["10.0.0.11", "10.0.0.12"]),
            "nodes demo-worker-0, 10.0.0.12 stopped answering",
        ),
        (
            Failure(reason="launcher", host="demo-head", lines=["no route"]),
            "the launcher on demo-head failed before any rank did:\n    no route",
        ),
        (
            Failure(reason="start", host="demo-head", lines=["1 of 2 ranks; not yet: rank 1 on 10.0.0.11"]),
            "its start took too long: 1 of 2 ranks; not yet: rank 1 on demo-worker-0",
        ),
        (
            Failure(reason="rank", host="demo-worker-0", rank=1, exit_code=3, lines=["ValueError: x"]),
            "rank 1 on demo-worker-0 ended with exit code 3:\n    ValueError: x",
        ),
        (
            Failure(reason="rank", host="demo-head", rank=0, exit_code=137, lines=["port.cc:1] oneDNN is on"]),
            "rank 0 on demo-head ended with exit code 137 (killed: out of memory?):",
        ),
    ],
)
def test_cause_of_a_failed_run_is_explained(failure: Failure, words: str) -> None:
    assert control.describe(failure, builders.cluster()) == words


def test_truncated_status_is_refetched_and_record_is_ignored() -> None:
    record_run("a", started=1.0)
    directory = state.for_cluster("demo").runs
    (directory / "a" / "status.json").write_text('{"state": "fini')
    assert not store.is_collected(state.for_cluster("demo"), builders.run(id="a"))
    (directory / "a" / "run.json").write_text("")
    assert store.list_runs(state.for_cluster("demo")) == []


def test_directory_of_runs_ignores_other_entries(tmp_path: Path) -> None:
    record_run("a", started=1.0)
    (state.for_cluster("demo").runs / "left over").mkdir()
    assert [run.id for run in store.list_runs(state.for_cluster("demo"))] == ["a"]


def test_run_of_a_queue_is_queued_runs_and_is_lost_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path))
    run, unit = builders.run(id="a", queue="queue-1"), b"orchestrator-queue-1.service loaded active running -\n"
    Path(run.directory).mkdir(parents=True)

    def state_with(units: bytes) -> str:
        with ssh_stand_in.session(lambda command: units if "list-units" in command else None) as head:
            return control.get_state(state.for_cluster("demo"), head, run).state

    assert state_with(unit) == "queued"
    (Path(run.directory) / store.TURN).touch()
    assert (state_with(unit), state_with(b"")) == ("running", "lost")
    status = RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0)
    status.write(Path(run.directory) / "status.json")
    assert (state_with(unit), state_with(b"")) == ("finished", "finished")


FINISHED = RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that are made, each of which takes no time."""
    made: list[float] = []
    monkeypatch.setattr("time.sleep", made.append)
    return made


@pytest.fixture
def on_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of run a on a head whose shared storage is a local directory."""
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path))
    directory = Path(run_record.directory("a"))
    directory.mkdir(parents=True)
    (directory / "log").write_text("a line\n")
    return directory


@contextmanager
def reachable(answer: Answer, outages: int = 0) -> Iterator[tuple[StateDir, Cluster]]:
    """Yield a cluster with a stand-in for its head, to which the first connections break."""
    with (
        ssh_stand_in.listening(answer) as (port, host_key),
        cutting_relay.relay_to(port, [0] * outages) as (near, _),
    ):
        yield ssh_stand_in.deployed(near, host_key)


def test_damaged_status_on_the_head_hides_no_other_run(on_head: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        record_run(name, started=1.0)
        Path(run_record.directory(name)).mkdir(exist_ok=True)
    (on_head / "status.json").touch()
    FINISHED.write(Path(run_record.directory("b")) / "status.json")
    with reachable(lambda command: b"" if "list-units" in command else None) as (state_dir, cluster):
        states = {run_state.run.id: run_state.state for run_state in control.overview(state_dir, cluster)}
    assert states == {"a": "unknown", "b": "finished"}
    assert f"{on_head}/status.json" in capsys.readouterr().err


@contextmanager
def followed(run: Run, units: Answer, outages: int = 0) -> Iterator[Callable[[], Iterator[bytes]]]:
    """Yield a function that follows ``run`` on a stand-in for the head."""

    def answer(command: str) -> bytes | None:
        return b"0\n" if "MainPID" in command else units(command) if "list-units" in command else None

    with reachable(answer, outages) as (state_dir, cluster):
        yield lambda: control.watch(state_dir, cluster, run)


def test_following_outlasts_an_outage_of_two_minutes(
    on_head: Path, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    FINISHED.write(on_head / "status.json")
    with followed(builders.run(id="a"), lambda _: b"", outages=9) as watch:
        assert b"".join(watch()) == b"a line\n"
    assert sum(pauses) == pytest.approx(120, rel=0.05)
    assert pauses == sorted(pauses)
    message = " ".join(capsys.readouterr().err.split())
    assert message.count("reconnecting for 2 minutes; runs continue meanwhile") == 1
    assert "the head does not answer: demo-head" in message


def test_head_that_does_not_return_ends_the_following(on_head: Path, pauses: list[float]) -> None:
    with followed(builders.run(id="a"), lambda _: b"", outages=10) as watch, pytest.raises(NodesFailed):
        list(watch())


def test_waiting_for_a_run_of_a_queue_outlasts_an_outage(on_head: Path, pauses: list[float]) -> None:
    FINISHED.write(on_head / "status.json")
    with reachable(lambda command: b"" if "list-units" in command else None, outages=9) as (state_dir, cluster):
        run_state = control.await_end(state_dir, cluster, builders.run(id="a", queue="queue-1"))
    assert run_state.state == "finished"


def test_log_of_a_queued_run_is_followed_to_its_last_line(on_head: Path, pauses: list[float]) -> None:
    """The run starts when its state is asked for the second time, and ends when it is asked for the third time."""
    asked: list[str] = []

    def units(command: str) -> bytes:
        asked.append(command)
        if len(asked) == 2:
            (on_head / store.TURN).touch()
            (on_head / "log").write_text("started\n")
        elif len(asked) == 3:
            (on_head / "log").write_text("started\nended\n")
            FINISHED.write(on_head / "status.json")
        return b"orchestrator-queue-1.service loaded active running -\n"

    (on_head / "log").unlink()
    with followed(builders.run(id="a", queue="queue-1"), units) as watch:
        assert b"".join(watch()) == b"started\nended\n"
    assert len(asked) == 3


def test_node_that_cannot_end_leftover_processes_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(end_runs, "PYTHON", str(tmp_path / "python"))  # as on a node that lost its files
    with reachable(ssh_stand_in.honest) as (state_dir, cluster), pytest.raises(NodesFailed) as caught:
        control.sweep(state_dir, cluster, builders.run(id="a"))
    assert list(caught.value.reasons) == ["demo-head"]
    assert re.fullmatch("exit code 127: .*python: not found", caught.value.reasons["demo-head"])
    assert "`orchestrator stop a --cluster demo`" in caught.value.hint
