"""A study's directory: truncated lines, running runs, one process at a time."""

import fcntl
import threading
from pathlib import Path

import pytest

from orchestrator.errors import StateError
from orchestrator.studies import journal, resumable_study
from orchestrator.studies.journal import Queued, Started
from orchestrator.studies.launch_schedule import Schedule
from tests.unit.studies.studies import cells, launch, study


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    resumable_study.create(tmp_path / "tiny-study", study())
    return tmp_path / "tiny-study"


def started(run: str = "lenet-mnist-0") -> Started:
    (cell, *_) = cells(study())
    return Started(cell=cell, round=0, again=False, run=run, started=1.0, busy=0.0, command=["orchestrator"])


def test_recorded_launches_are_read_back(directory: Path) -> None:
    planned = Schedule(study(), cells(study()), []).next()
    assert planned
    with journal.opened(directory) as current:
        current.begin(started())
        current.end(launch(planned))
    with journal.opened(directory) as current:
        assert current.launches == [launch(planned)]
        assert current.started is None


@pytest.mark.parametrize("length", [0, 1, 50, -1])
def test_unfinished_last_line_is_removed(directory: Path, length: int) -> None:
    planned = Schedule(study(), cells(study()), []).next()
    assert planned
    with journal.opened(directory) as current:
        current.end(launch(planned))
    path = directory / journal.LAUNCHES
    line = path.read_bytes()
    path.write_bytes(line + line[:length])
    assert len(journal.read(directory)) == 1
    with journal.opened(directory) as current:
        current.end(launch(planned))
    assert path.read_bytes() == line + line


def test_damaged_line_is_named(directory: Path) -> None:
    (directory / journal.LAUNCHES).write_text("{}\n{}\n")
    with pytest.raises(StateError, match=r"launches.jsonl: line 1: "):
        journal.read(directory)


def test_running_run_is_known_until_it_is_in_the_journal(directory: Path) -> None:
    planned = Schedule(study(), cells(study()), []).next()
    assert planned
    with journal.opened(directory) as current:
        current.begin(started())
    with journal.opened(directory) as current:
        assert current.started == started()
        current.end(current.started.launch(seconds=2.0, problem="was stopped"))
    started().write(directory / journal.STARTED)  # as if killed before the note was removed
    with journal.opened(directory) as current:
        assert current.started is None
        assert [each.run for each in current.launches] == ["lenet-mnist-0"]


def test_only_one_process_runs_a_study(directory: Path) -> None:
    assert journal.runner(directory) is None
    with journal.opened(directory):
        assert (journal.runner(directory) or "").startswith("pid ")
        with pytest.raises(StateError, match="this study is run by pid"), journal.opened(directory):
            pass


def test_query_of_the_state_does_not_keep_a_study_from_starting(directory: Path) -> None:
    with (directory / journal.LOCK).open("a") as query:
        fcntl.flock(query, fcntl.LOCK_SH)
        assert journal.runner(directory) is None
        timer = threading.Timer(0.15, query.close)
        timer.start()
        with journal.opened(directory):
            pass
        timer.join()


def test_files_of_a_run_are_stored_without_checkpoints(directory: Path, tmp_path: Path) -> None:
    source = tmp_path / "run"
    (source / "checkpoints").mkdir(parents=True)
    for name in ("results.json", "log", ".lock", "checkpoints/state"):
        (source / name).write_text(name)
    with journal.opened(directory) as current:
        for _ in range(2):  # a second time after a kill
            copied = current.keep(source, "lenet-mnist-0")
    assert sorted(path.name for path in copied.iterdir()) == ["log", "results.json"]
    assert [path.name for path in (directory / "runs").iterdir()] == ["lenet-mnist-0"]


def test_directory_with_a_study_is_not_overwritten(directory: Path) -> None:
    with pytest.raises(StateError, match="holds a study already: 0 launches") as caught:
        resumable_study.create(directory, study())
    assert "--resume" in caught.value.hint


def test_study_in_a_directory_is_the_one_that_was_started(tmp_path: Path) -> None:
    whole = study(batch=[8, 16], repetitions=3, until={"time": "90s"}, data={"mnist": "/data"}, shrunk=True)
    resumable_study.create(tmp_path / "one", whole)
    assert resumable_study.load(tmp_path / "one") == whole


def test_launches_of_the_head_are_known_until_collected(directory: Path) -> None:
    queued = Queued(cluster="default", run="queue-1", launches=[started()])
    with journal.opened(directory) as current:
        current.enqueue(queued)
    with journal.opened(directory) as current:
        assert current.queued == queued
        current.dequeue()
    assert journal.read_queued(directory) is None


def test_damaged_file_of_the_heads_launches_is_named(directory: Path) -> None:
    (directory / journal.QUEUED).write_text("{}")
    with pytest.raises(StateError, match=r"queued.json"):
        journal.read_queued(directory)


@pytest.mark.parametrize("name", [journal.LAUNCHES, journal.STARTED, journal.QUEUED, journal.CLUSTER])
def test_file_that_was_not_read_is_not_to_be_removed(directory: Path, name: str) -> None:
    (directory / name).mkdir()  # is not opened either, and root reads every file
    with pytest.raises(StateError, match=f"{name}: is a directory") as caught, journal.opened(directory):
        resumable_study.read_cluster(directory)
    assert "remove" not in caught.value.hint
    assert "can read" in caught.value.hint
