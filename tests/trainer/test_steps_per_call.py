"""Several short steps per call compute the same bits as one step per call, and can stop after each step."""

import sys
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.schema import Epoch
from orchestrator.trainer import compiled_steps, stop_conditions
from orchestrator.trainer.optim import optimizers
from orchestrator.trainer.rank_setup import Trainer
from tests import samples
from tests.trainer import launcher
from tests.trainer.table import normalised, rows

BATCHES, BATCH = 7, 4
# A run whose calls take at most this many steps, and exactly this many after two were measured.
PROGRAM = """
import pathlib, sys
from orchestrator.trainer import stop_conditions, train
from orchestrator.trainer.telemetry.recorder import Recorder

taken, step = [], Recorder.step

def noted(self, done, rate, reducing, steps):
    taken.append(steps)
    step(self, done, rate, reducing, steps)

Recorder.step = noted
stop_conditions.MEASURED_CALLS, stop_conditions.CALL_SECONDS, stop_conditions.MOST_STEPS = 2, 3600.0, int(sys.argv[2])
train.main(pathlib.Path(sys.argv[1]))
print("taken", taken)
"""
ONE_BY_ONE = {"epoch", "steps", "learning_rate", "train", "test", "weights_sha256"}  # all fields but the times


def trained(steps_of_calls: list[int], **changes: Any) -> tuple[list[np.ndarray], int]:
    """Return weights, statistics, momenta and sums after calls with these numbers of steps, and the traces."""
    hvd.init()
    model, config = normalised(), samples.train_config(classes=3, **changes)
    optimizer = optimizers.build(config)
    optimizer.build(model.trainable_variables)
    trainer = Trainer(config, model, optimizer, rows(0.0), rows(0.0), BATCH, BATCHES)
    random, sums, completed = np.random.default_rng(1), tf.zeros([4]), 0
    images = random.normal(size=(BATCHES * BATCH, 1, 1, 6)).astype(np.float32)
    labels, rates = random.integers(0, 3, BATCHES * BATCH), np.linspace(0.1, 0.01, BATCHES, dtype=np.float32)
    step: Any = compiled_steps.training(trainer)
    for count in steps_of_calls:
        part = slice(completed * BATCH, (completed + count) * BATCH)
        votes = tf.zeros([len(stop_conditions.StopVotes._fields)], tf.int32)
        sums, _, _ = step(images[part], labels[part], rates[completed : completed + count], votes, sums)
        completed += count
    return [v.numpy() for v in [*model.variables, *optimizer.variables]] + [sums.numpy()], (
        step.experimental_get_tracing_count()
    )


@pytest.mark.parametrize(
    "changes", [{}, {"optimizer": "adam", "on_nan": "skip"}, {"backward_passes_per_step": 2, "clip_norm": 1.0}]
)
def test_steps_per_call_do_not_change_the_bits(changes: Any) -> None:
    one_by_one, _ = trained([1] * BATCHES, **changes)
    for calls in ([BATCHES], [1, 3, 3], [1, 5, 1]):
        together, traces = trained(calls, **changes)
        assert all(np.array_equal(one, other) for one, other in zip(one_by_one, together, strict=True))
        assert traces == 1


def run(directory: Path, most: int, before: "Path | None" = None, **changes: Any) -> "tuple[list[Epoch], str]":
    """Run two epochs of 20 steps on two ranks, or resume run ``before``; return its epochs and its output."""
    table = samples.table(directory / "data" / "sky.csv", [samples.sky(number) for number in range(356)])
    if before:
        (checkpoint,) = sorted((before / "checkpoints").glob("*-step-*"))
        changes["resume"] = str(checkpoint)
    shape = {"dataset": "sdss", "model": "dense", "data": str(table), "image_size": 1, "channels": 6, "classes": 3}
    config = samples.train_config(**shape, run=directory.name, batch_size=8, epochs=2, warmup_epochs=1, **changes)
    config.write(directory / "config.json")
    output = launcher.launch(directory, [sys.executable, "-c", PROGRAM, str(directory), str(most)], ranks=2)
    assert output.returncode == 0, output.stdout
    return launcher.results(directory).epochs, output.stdout


def test_run_with_several_steps_per_call_stops_and_resumes(
    tmp_path: Path,
) -> None:
    straight, output = run(tmp_path / "straight", most=1)
    stopped, said_stopped = run(tmp_path / "stopped", most=6, steps=27)
    resumed, said_resumed = run(tmp_path / "resumed", most=4, before=tmp_path / "stopped")
    assert output.count(f"taken {[1] * 40}") == 2
    assert said_stopped.count(f"taken {[1, 1, 1, 1, 6, 6, 4, 6, 1]}") == 2
    assert said_resumed.count(f"taken {[1, 1, 1, 1, 4, 4, 1]}") == 2
    assert [epoch.steps for epoch in stopped] == [20, 27]
    compared = [[epoch.model_dump(include=ONE_BY_ONE) for epoch in epochs] for epochs in (straight, resumed)]
    assert compared[0] == compared[1]
