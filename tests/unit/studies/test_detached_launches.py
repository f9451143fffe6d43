"""Launches that are prepared for a queue on the head, whose shared storage is a local directory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import ConfigError, NodesFailed, OrchestratorError, StateError
from orchestrator.runs import jobs, run_record, store
from orchestrator.runs.run_record import Run
from orchestrator.state import Record, StateDir, cluster_lock
from orchestrator.studies import detached_launches
from orchestrator.studies.cell_launch import Launcher
from orchestrator.studies.journal import Journal
from orchestrator.studies.launch_schedule import Schedule
from tests import builders
from tests.stand_ins import ssh_stand_in
from tests.unit.studies.studies import cells, study

ORDER = Schedule(study(), cells(study()), []).certain()[:3]
WRONG = ConfigError(["train.batch_size: too large"])


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    monkeypatch.setattr("time.sleep", lambda _: None)
    return tmp_path / "shared" / "runs"


@contextmanager
def launcher(directory: Path) -> Iterator[Launcher]:
    """Yield the launches of a study on a cluster whose head starts every unit."""

    def answer(command: str) -> bytes | None:
        return b"" if "systemctl" in command or "systemd-run" in command else None

    with ssh_stand_in.listening(answer) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key, slots=2)
        config = Config(name="demo", nodes=1)
        state.write(state_dir, Record(id="1a2b3c4d", config=config.model_dump(mode="json"), cluster=cluster))
        yield Launcher(config, study(), Journal(directory), lambda _: (state_dir, cluster, ""), deploys=False)


def preparing(*problems: BaseException | None) -> Callable[..., Run]:
    """Return a function that prepares a run, or fails after it wrote the run's files."""
    left = list(problems)

    def train(
        state_dir: StateDir, cluster: Cluster, digest: str, config: Config, planned: Callable[[Run], None], queue: str
    ) -> Run:
        run = builders.run(id=f"run-{len(left)}", np=1, queue=queue)
        planned(run)
        for directory in (Path(run.directory), state_dir.runs / run.id):
            directory.mkdir(parents=True)
        if problem := left.pop(0):
            raise problem
        return run

    return train


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("run-*"))


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), NodesFailed("no answer", {}), StateError("another run")])
def test_launches_of_a_queue_that_is_not_prepared_are_removed(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    monkeypatch.setattr(jobs, "train", preparing(None, None, problem))
    with launcher(tmp_path) as launches, pytest.raises(type(problem)):
        detached_launches.enqueue(launches, ORDER)
    assert (names(shared), names(launches.state_dir.runs), launches.journal.queued) == ([], [], None)


def test_launches_of_a_queue_that_cannot_start_are_removed(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "train", preparing(None, None, None))
    with launcher(tmp_path) as launches, cluster_lock.starting(launches.state_dir), pytest.raises(OrchestratorError):
        detached_launches.enqueue(launches, ORDER)
    assert (names(shared), names(launches.state_dir.runs)) == ([], [])


def test_launch_that_cannot_be_prepared_is_not_counted(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "train", preparing(None, WRONG, None))
    with launcher(tmp_path) as launches:
        queued = detached_launches.enqueue(launches, ORDER)
        current = detached_launches.read_progress(tmp_path)
    assert current is not None
    assert (queued.launches, current.launches) == (2, 2)
    assert [launch.problem for launch in launches.journal.launches] == ["train.batch_size: too large"]
    assert [run.id for run in store.list_runs(launches.state_dir) if run.queue] == ["run-3", "run-1"]
