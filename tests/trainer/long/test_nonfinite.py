"""Steps with a nonfinite loss: with skip, they change nothing on any rank."""

import re
import sys
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer import averages_over_ranks, compiled_steps
from orchestrator.trainer.data.sample_order import epoch_order
from orchestrator.trainer.optim import nonfinite
from orchestrator.trainer.rank_setup import Trainer
from tests import samples
from tests.trainer import launcher
from tests.trainer.table import BAD, ROWS, normalised, rows

# A run on rows of which one contains NaN.
PROGRAM = """
import pathlib, sys
from orchestrator.trainer import train
from orchestrator.trainer.models import networks_by_name
from orchestrator.trainer.data import batches
from tests.trainer.table import normalised, rows

networks_by_name.build = lambda *_, **__: normalised()
batches.load = lambda config: (rows(float("nan")), rows(0.0))
sys.exit(train.main(pathlib.Path(sys.argv[1])))
"""


def build_trainer(optimizer: keras.optimizers.Optimizer) -> Trainer:
    model = normalised()
    optimizer.build(model.trainable_variables)
    config = samples.train_config(classes=3, on_nan="skip")
    return Trainer(config, model, optimizer, rows(0.0), rows(0.0), 4, 3)


def stepped(step: Any, images: tf.Tensor) -> float:
    """Return the number of images that count after a step on these."""
    labels, wishes = tf.constant([0, 1, 2, 0], tf.int64), tf.zeros([4], tf.int32)
    return float(step(images, labels, [0.1], wishes, tf.zeros([4]))[0][3])


def scaled() -> keras.optimizers.Optimizer:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))


@pytest.mark.parametrize("optimizer", [lambda: keras.optimizers.SGD(0.1, momentum=0.9), scaled])
def test_skipped_step_changes_nothing(optimizer: Any) -> None:
    hvd.init()
    trainer = build_trainer(optimizer())
    step, good = compiled_steps.training(trainer), tf.random.normal([4, 1, 1, 6], seed=1)

    def values() -> list[np.ndarray]:
        return [v.numpy() for v in [*trainer.model.variables, *trainer.optimizer.variables]]

    counted = [stepped(step, good)]
    before = values()
    counted.append(stepped(step, good * float("nan")))
    after = values()
    counted.append(stepped(step, good))
    assert (counted, trainer.guard.skipped) == ([4, 0, 4], 1)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    assert not all(np.array_equal(one, other) for one, other in zip(after, values(), strict=True))


def run(directory: Path, ranks: int, **changes: Any) -> str:
    """Return the output of a run of two epochs."""
    values = {"run": directory.name, "dataset": "sdss", "model": "dense", "classes": 3, "image_size": 1, "channels": 6}
    directory.mkdir()
    config = samples.train_config(**{**values, "batch_size": 8 // ranks, **changes})
    config.write(directory / "config.json")
    return launcher.launch(directory, [sys.executable, "-c", PROGRAM, str(directory)], ranks).stdout


@pytest.mark.parametrize("ranks", [1, 2])
def test_run_with_skip_counts_nonfinite_steps(tmp_path: Path, ranks: int) -> None:
    output = run(tmp_path / "run", ranks, on_nan="skip", learning_rate=0.01)
    assert (tmp_path / "run" / "results.json").exists(), output
    results = launcher.results(tmp_path / "run")
    assert (results.ended, results.skipped_steps) == ("epochs", 2), output
    assert [(epoch.steps, epoch.train.images) for epoch in results.epochs] == [(3, 16), (6, 16)]
    assert all(np.isfinite([epoch.train.loss, epoch.test.loss]).all() for epoch in results.epochs)
    assert "skipped 2 steps whose loss was not a number" in output
    named = re.findall(r"<stderr>:rank (\d), step (\d): loss is not a number: .*\((\d) skipped so far\)", output)
    first, second = rank_and_step_of_bad_row(1, ranks), rank_and_step_of_bad_row(2, ranks)
    assert named == [(str(first[0]), str(first[1]), "1"), (str(second[0]), str(second[1] + 3), "2")]


def rank_and_step_of_bad_row(epoch: int, ranks: int) -> tuple[int, int]:
    """Return the rank that gets the bad row, and the epoch's step in which it does."""
    position = epoch_order(ROWS, samples.train_config().seed, epoch).tolist().index(BAD)
    return position % ranks, position // 8 + 1


@pytest.mark.parametrize(
    ("changes", "ended", "epochs"), [({"checkpoint_every": 1e-3}, "epochs", 2), ({"max_time": 1.0}, "max-time", 0)]
)
def test_epoch_may_begin_with_skipped_steps(tmp_path: Path, changes: dict[str, float], ended: str, epochs: int) -> None:
    seed = next(seed for seed in range(99) if BAD in epoch_order(ROWS, seed, 1)[:8])
    output = run(tmp_path / "run", 1, on_nan="skip", learning_rate=0.01, seed=seed, **changes)
    assert (tmp_path / "run" / "results.json").exists(), output
    results = launcher.results(tmp_path / "run")
    assert (results.ended, len(results.epochs)) == (ended, epochs), output


@pytest.mark.parametrize("ranks", [1, 2])
def test_nonfinite_step_ends_the_run_and_names_its_rank(tmp_path: Path, ranks: int) -> None:
    output = run(tmp_path / "run", ranks)
    rank, step = rank_and_step_of_bad_row(1, ranks)
    location = f"after step 3 (epoch 1), first on rank {rank}, step {step}"
    assert f"training loss is nan {location}: use a smaller --learning-rate in a new run" in output


@pytest.mark.parametrize(
    ("split", "on_nan", "resumable", "advised"),
    [
        ("training", "stop", True, True),
        ("training", "stop", False, False),
        ("training", "skip", True, False),
        ("test", "stop", True, False),
    ],
)
def test_resumption_is_recommended_only_if_it_helps(split: str, on_nan: Any, resumable: bool, advised: bool) -> None:
    hvd.init()
    trainer = build_trainer(keras.optimizers.SGD(0.1))
    trainer.config = trainer.config.model_copy(update={"on_nan": on_nan})
    trainer.resumable = resumable
    with pytest.raises(SystemExit) as caught:
        averages_over_ranks.sum_scores(trainer, tf.fill([4], float("nan")), split)
    resumes = f", or `orchestrator train --resume {trainer.config.run} --on-nan skip`"
    assert str(caught.value).endswith(f"use a smaller --learning-rate in a new run{resumes if advised else ''}")


def test_too_many_skipped_steps_in_a_row_end_the_run() -> None:
    hvd.init()
    trainer = build_trainer(keras.optimizers.SGD(0.1))
    step, nothing = compiled_steps.training(trainer), tf.fill([4, 1, 1, 6], float("nan"))
    for _ in range(nonfinite.MAX_SKIPPED_IN_A_ROW - 1):
        stepped(step, nothing)
    trainer.guard.check("after step 19")
    stepped(step, nothing)
    with pytest.raises(SystemExit, match="not a number in the last 20 steps, after step 20: use a smaller"):
        trainer.guard.check("after step 20")


def test_epoch_of_skipped_steps_ends_the_run() -> None:
    hvd.init()
    with pytest.raises(SystemExit, match=r"training: the loss of no step was a number after step 0 \(epoch 0\)"):
        averages_over_ranks.scores(build_trainer(keras.optimizers.SGD(0.1)), tf.zeros([4]), "training")
