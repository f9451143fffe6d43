"""Starts of runs: what is kept of a run is written before it starts, or is no error."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import ConfigError
from orchestrator.runs import checksums, control, jobs, prediction_inputs, resume_point, shared_data, source_archive
from orchestrator.runs.control import NodeResources
from orchestrator.runs.datasets import FoundDataset
from orchestrator.runs.jobs import resumed_training, scripts, trainer
from orchestrator.runs.run_record import Run
from orchestrator.runs.script import Source
from orchestrator.runs.user_variables import UserEnvironment
from orchestrator.schema import Checkpoints
from orchestrator.state import StateDir
from tests import builders, samples

RUN = builders.run()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the runs that are started, in place of a head."""
    ids: list[str] = []

    @contextmanager
    def session(*_: Any) -> Iterator[None]:
        yield

    def start(state_dir: StateDir, cluster: Cluster, head: Any, run: Run, *_: Any) -> Run:
        ids.append(run.id)
        return run

    monkeypatch.setattr(control, "head_session", session)
    monkeypatch.setattr(control, "check_nodes", lambda *_: NodeResources("eth0", 8 << 30))
    monkeypatch.setattr(control, "plan", lambda *_: RUN)
    monkeypatch.setattr(control, "start", start)
    monkeypatch.setattr(trainer, "plan", lambda *_: RUN)
    monkeypatch.setattr(trainer, "start", start)
    return ids


def refuse(*_: Any) -> None:
    raise ConfigError(["/state: Read-only file system"])


def test_training_whose_data_cannot_be_recorded_does_not_start(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "keep", refuse)
    monkeypatch.setattr(shared_data, "provide", lambda *_: "/shared/data/mnist")
    data = FoundDataset("mnist", tmp_path, [], train=1, test=1, note="")
    state_dir = state.for_cluster("demo")
    with pytest.raises(ConfigError, match="Read-only"):
        jobs._start(state_dir, builders.cluster(), RUN, Config(), data, lambda _: samples.train_config())
    assert started == []


def test_resumed_training_whose_data_cannot_be_recorded_does_not_start(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "keep_same", refuse)
    monkeypatch.setattr(resume_point, "read", lambda *_: (samples.train_config(), Checkpoints(entries=[])))
    monkeypatch.setattr(resume_point, "resumed_config", lambda *_: samples.train_config())
    with pytest.raises(ConfigError, match="Read-only"):
        resumed_training.resume(state.for_cluster("demo"), builders.cluster(), "", Config(), RUN, {})
    assert started == []


def test_script_whose_code_cannot_be_kept_does_not_start(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_archive, "keep", refuse)
    source = Source(Path(), ["true"], files={}, left_out={})
    state_dir = builders.deployed("demo")
    with pytest.raises(ConfigError, match="Read-only"):
        scripts.start(state_dir, builders.cluster(), "", Config(), source, UserEnvironment(), None)
    assert started == []


def test_code_of_a_script_is_kept_before_its_run_has_a_record() -> None:
    state_dir = builders.deployed("demo")
    source_archive.keep(state_dir, RUN, b"an archive")
    assert (state_dir.runs / RUN.id / source_archive.FILE).read_bytes() == b"an archive"


def test_prediction_that_cannot_be_kept_is_no_error_of_a_run_that_has_started(
    started: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prediction_inputs, "save_of_run", refuse)
    config = Config.model_validate({"train": {"model": "lenet", "dataset": "synthetic"}})
    assert jobs.train(state.for_cluster("demo"), builders.cluster(), "", config) == RUN
    assert started == [RUN.id]
    assert f"run {RUN.id} has started, its prediction is not kept: /state" in " ".join(capsys.readouterr().err.split())
