"""Rates of epochs, and reasons for the end, in the results of runs."""

import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import horovod.tensorflow as hvd
import keras
import pytest
import tensorflow as tf

from orchestrator.schema import Profile, Results
from orchestrator.trainer import results, stop_conditions
from orchestrator.trainer.data import batches
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.results import Clock
from tests import samples
from tests.trainer import launcher

BATCH, EPOCH_STEPS = 8, 5
CHECKPOINT_SECONDS = 1.5
# A run that writes two checkpoints within its second epoch, and takes this long to write each.
SLOW_CHECKPOINTS = f"""
import pathlib, sys, time
from orchestrator.trainer import train
from orchestrator.trainer.checkpoints.checkpoint import CheckpointManager
from orchestrator.trainer.stop_conditions import StopControl

write = CheckpointManager._write

def write_slowly(self, rank_states, trained):
    time.sleep({CHECKPOINT_SECONDS} if trained is None else 0.0)
    write(self, rank_states, trained)

CheckpointManager._write = write_slowly
StopControl._due = lambda self: self.trainer.step in ({EPOCH_STEPS + 1}, {EPOCH_STEPS + 3})
train.main(pathlib.Path(sys.argv[1]))
"""
# A run whose time is up during its last step; for some runs, before the evaluation too.
TIME_UP = """
import pathlib, sys
from orchestrator.trainer import train
from orchestrator.trainer.stop_conditions import StopControl

def has_time_for(self, *parts):
    before_last_step = self.trainer.step + 1 < self.trainer.config.epochs * self.trainer.steps_per_epoch
    return before_last_step or (parts == ("evaluation",) and sys.argv[2] == "True")

StopControl.has_time_for = has_time_for
train.main(pathlib.Path(sys.argv[1]))
"""


class Timeline:
    """The clock of an epoch whose steps take given times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps_before: int = 0, before: Any = (0.0, 0.0, 0.0)) -> None:
        hvd.init()
        self.now = 100.0
        monkeypatch.setattr(results, "PROGRESS_SECONDS", float("inf"))
        monkeypatch.setattr(results, "time", SimpleNamespace(perf_counter=lambda: self.now))
        config, optimizer = samples.train_config(), keras.optimizers.SGD()
        nothing = batches.Split(0, lambda index, seed: (index, seed), 1)
        self.trainer = Trainer(config, keras.Model(), optimizer, nothing, nothing, BATCH, EPOCH_STEPS, epoch=1)
        self.trainer.step = self.trainer.steps_before = steps_before
        self.clock = Clock(self.trainer, before)

    def step(self, seconds: float) -> None:
        self.now += seconds
        self.trainer.step += 1
        self.clock.tick(tf.zeros([4]))

    def pause(self, seconds: float) -> None:
        with self.clock.pause():
            self.now += seconds


def test_pause_counts_neither_for_the_rate_nor_for_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = Timeline(monkeypatch)
    timeline.step(3.0)
    for _ in range(2):
        timeline.pause(60.0)
        timeline.step(0.5)
    timeline.pause(60.0)
    assert timeline.clock.rate == pytest.approx(2 * BATCH / 1.0)
    assert timeline.clock.seconds == pytest.approx(4.0)


def test_tracing_does_not_count_if_a_run_resumes_at_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = Timeline(monkeypatch, steps_before=EPOCH_STEPS - 1, before=(5.0, 3.0, 1.5))
    timeline.step(60.0)
    assert timeline.clock.timing == pytest.approx((65.0, 3.0, 1.5))
    assert timeline.clock.rate == pytest.approx(2 * BATCH)


def test_rate_is_0_if_the_only_step_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = Timeline(monkeypatch, steps_before=EPOCH_STEPS - 1)
    timeline.step(60.0)
    assert timeline.clock.rate == 0.0


def test_progress_has_no_loss_before_an_image_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --on-nan skip, the first steps of an epoch may all be skipped."""
    timeline = Timeline(monkeypatch)
    monkeypatch.setattr(results, "PROGRESS_SECONDS", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        timeline.step(3.0)
    assert capsys.readouterr().out == "epoch 1/2  step 1/5  0 images/s\r"


def run(directory: Path, program: str, *words: str, ranks: int = 1, **changes: Any) -> Results:
    """Run two epochs of five short steps; a tenth of the rows is held out."""
    rows = [samples.sky(number) for number in range((EPOCH_STEPS * BATCH + 5) * ranks)]
    table = samples.table(directory / "data" / "sky.csv", rows)
    shape = {"dataset": "sdss", "model": "dense", "data": str(table), "image_size": 1, "channels": 6, "classes": 3}
    config = samples.train_config(**shape, run=directory.name, batch_size=BATCH, epochs=2, **changes)
    config.write(directory / "config.json")
    output = launcher.launch(directory, [sys.executable, "-c", program, str(directory), *words], ranks)
    assert output.returncode == 0, output.stdout
    return launcher.results(directory)


@pytest.mark.parametrize("ranks", [1, 2])
def test_checkpoints_within_an_epoch_count_for_no_step(tmp_path: Path, ranks: int) -> None:
    """On every rank: rank 0 writes, and the others wait for it. Only the first epoch has a step that traces."""
    epoch = run(tmp_path / "run", SLOW_CHECKPOINTS, ranks=ranks).epochs[1]
    written = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert {"epoch-0002-step-000007", "epoch-0002-step-000009"} <= written
    assert epoch.steps == 2 * EPOCH_STEPS
    assert max(EPOCH_STEPS * BATCH / rate for rate in epoch.images_per_second_per_rank) < CHECKPOINT_SECONDS
    assert epoch.seconds < CHECKPOINT_SECONDS
    steps = zip(epoch.input_seconds, epoch.compute_seconds, epoch.communication_seconds, strict=True)
    assert max(map(sum, steps)) * EPOCH_STEPS < CHECKPOINT_SECONDS
    if ranks == 1:
        profile = Profile.model_validate_json((tmp_path / "run" / "profile.json").read_text())
        assert max(profile.steps) < CHECKPOINT_SECONDS


@pytest.mark.parametrize(("evaluated", "ended", "epochs"), [(True, "epochs", 2), (False, "max-time", 1)])
def test_time_limit_met_by_the_last_step_ends_no_complete_run(
    tmp_path: Path, evaluated: bool, ended: str, epochs: int
) -> None:
    """Without time for the last evaluation the run is not complete: it can be resumed."""
    trained = run(tmp_path / "run", TIME_UP, str(evaluated), max_time=1e6)
    assert (trained.ended, len(trained.epochs)) == (ended, epochs)
    assert ("max-time after step" in (tmp_path / "run" / "log").read_text()) == (not evaluated)


@pytest.mark.parametrize(
    ("before", "epoch", "top1", "ended"),
    [
        (None, 1, 0.5, None),
        (None, 1, 0.9, "until"),
        ("max-time", 1, 0.5, "max-time"),
        ("max-time", 1, 0.9, "until"),
        ("max-time", 2, 0.5, None),
        ("steps", 2, 0.9, "steps"),
    ],
)
def test_complete_run_is_not_ended_by_its_time_limit(
    monkeypatch: pytest.MonkeyPatch, before: str | None, epoch: int, top1: float, ended: str | None
) -> None:
    trainer = Timeline(monkeypatch).trainer
    trainer.config = samples.train_config(epochs=2, until="top1=0.9")
    trainer.ended, trainer.epoch = before, epoch
    assert stop_conditions.after_epoch(trainer, top1) == ended
