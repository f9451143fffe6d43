"""Runs as recorded on this machine."""

from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.errors import StateError
from orchestrator.runs import control, run_record, store
from orchestrator.schema import Failure, RunStatus
from tests import builders
from tests.stand_ins import ssh_stand_in


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
