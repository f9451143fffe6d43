"""What a checkpoint holds, which are kept, and how much time a run leaves itself: on one rank, in this process."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.schema import Checkpoint, CheckpointEntry, Checkpoints, Epoch, Scores, Trained
from orchestrator.trainer.checkpoints.checkpoint import CheckpointManager
from orchestrator.trainer.data import batches
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.stopping import StopControl
from tests import samples

STEPS = 4
SCORES = Scores(loss=1.0, top1=0.5, top5=0.9, images=8)


@pytest.fixture(autouse=True)
def termination() -> Iterator[None]:
    """A StopControl takes SIGTERM to itself."""
    hvd.init()
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def trainer(**changes: Any) -> Trainer:
    """A model with all kinds of variables, and an optimizer that scales the loss."""
    keras.utils.set_random_seed(1)
    inside = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=3)]
    model = keras.Sequential([keras.Input((4,)), *inside, keras.layers.Dense(2)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    optimizer.build(model.trainable_variables)
    nothing = batches.Split(0, lambda index, seed: (index, seed), 1)
    return Trainer(samples.train_config(**changes), model, optimizer, nothing, nothing, 8, STEPS, 0.0)


def keeper(directory: Path, made: Trainer) -> CheckpointManager:
    return CheckpointManager(directory / "run" / "checkpoints", made, StopControl(directory, made))


def step(made: Trainer) -> None:
    with tf.GradientTape() as tape:
        loss = made.optimizer.scale_loss(tf.reduce_mean(made.model(tf.random.normal([8, 4]), training=True) ** 2))
    made.optimizer.apply(tape.gradient(loss, made.variables), made.model.trainable_variables)
    made.step += 1


def values(made: Trainer) -> list[np.ndarray]:
    return [v.numpy() for v in [*made.model.variables, *made.optimizer.variables]]


def trained(made: Trainer) -> Trained:
    rates: dict[str, Any] = {"images_per_second": 1.0, "images_per_second_per_rank": [1.0], "seconds": 1.0}
    where = {"epoch": made.epoch, "steps": made.step, "learning_rate": 0.1}
    return Trained(**where, **rates, train=SCORES, peak_memory_per_rank=[1])


def epoch(kept: CheckpointManager, made: Trainer, top1: float) -> None:
    """An epoch that reaches ``top1``."""
    made.epoch += 1
    made.step = made.epoch * STEPS
    kept.save({}, trained(made))
    test = SCORES.model_copy(update={"top1": top1})
    kept.add_evaluation(Epoch(**trained(made).model_dump(), test=test, test_seconds=1.0, weights_sha256="00"))


def left(kept: CheckpointManager) -> list[str]:
    names = sorted(path.name for path in kept.storage.directory.iterdir() if path.is_dir())
    assert names == sorted(one.name for one in kept.storage.index.entries)
    return names


def test_everything_that_changes_is_brought_back(tmp_path: Path) -> None:
    """Weights, statistics, dropout's numbers, momentum, iterations, the loss's scale and its count, damaged samples."""
    before = trainer()
    before.epoch = 2
    before.step = STEPS
    for _ in range(2):
        step(before)
    before.optimizer.dynamic_scale.assign(16.0)
    before.train_split.checker.damaged.update({7, 3})
    tallies = {"sums": np.array([1, 2, 3, 4], np.float32), "timing": np.array([5.0, 6.0, 7.0])}
    keeper(tmp_path / "before", before).save(tallies)
    point = tmp_path / "before" / "run" / "checkpoints" / "epoch-0002-step-000006"
    after = trainer(resume=str(point))
    fresh = values(after)
    found, own = keeper(tmp_path / "after", after).restore()
    paths = [v.path.rpartition("/")[2] for v in [*after.model.variables, *after.optimizer.variables]]
    unchanged = {path for path, a, b in zip(paths, fresh, values(before), strict=True) if (a == b).all()}
    assert unchanged <= {"learning_rate", "iteration"}  # of the outer optimizer, which counts no steps
    assert all((a == b).all() for a, b in zip(values(after), values(before), strict=True))
    assert {name: own[name].tolist() for name in tallies} == {k: v.tolist() for k, v in tallies.items()}
    assert after.train_split.checker.damaged == {3, 7}
    assert (found is not None and found.trained, after.epoch, after.step, after.steps_before) == (None, 1, 6, 6)


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    made = trainer(keep_checkpoints=2)
    kept = keeper(tmp_path, made)
    for top1 in (0.1, 0.9, 0.3, 0.2, 0.4):
        epoch(kept, made, top1)
    assert (left(kept), kept.storage.index.best) == (["epoch-0002", "epoch-0004", "epoch-0005"], "epoch-0002")
    epoch(kept, made, 0.95)
    assert (left(kept), kept.storage.index.best) == (["epoch-0005", "epoch-0006"], "epoch-0006")


def test_the_index_is_on_the_disk_before_what_it_does_not_name_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(keep_checkpoints=1)
    kept = keeper(tmp_path, made)
    epoch(kept, made, 0.1)
    fsync, seen = os.fsync, []

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        if Path(f"/proc/self/fd/{descriptor}").resolve() == kept.storage.directory:
            index = Checkpoints.model_validate_json((kept.storage.directory / "index.json").read_text())
            seen.append(([one.name for one in index.entries], (kept.storage.directory / "epoch-0001").exists()))

    monkeypatch.setattr(os, "fsync", flush)
    epoch(kept, made, 0.9)
    assert (["epoch-0002"], True) in seen


def test_what_a_run_goes_on_from_is_its_own_and_so_is_the_best(tmp_path: Path) -> None:
    made = trainer(keep_checkpoints=1)
    kept = keeper(tmp_path / "old", made)
    for top1 in (0.1, 0.9, 0.3):
        epoch(kept, made, top1)
    again = trainer(keep_checkpoints=1, resume=str(kept.storage.directory / "epoch-0003"))
    resumed = keeper(tmp_path / "new", again)
    resumed.restore()
    assert (left(resumed), resumed.storage.index.best) == (["epoch-0002", "epoch-0003"], "epoch-0002")
    assert (again.epoch, again.step, len(resumed.epochs)) == (3, 12, 3)
    epoch(resumed, again, 0.5)
    assert left(resumed) == ["epoch-0002", "epoch-0004"]
    assert left(kept) == ["epoch-0002", "epoch-0003"]


def test_the_best_stays_though_it_had_more_steps_by_fewer_ranks(tmp_path: Path) -> None:
    made = trainer(keep_checkpoints=1)
    kept = keeper(tmp_path / "old", made)
    for top1 in (0.1, 0.9, 0.3):
        epoch(kept, made, top1)
    best, newest = kept.storage.index.entries
    fewer = best.model_copy(update={"step": 10 * newest.step})
    kept.storage.index.model_copy(update={"entries": [fewer, newest]}).write(kept.storage.directory / "index.json")
    resumed = keeper(tmp_path / "new", trainer(keep_checkpoints=1, resume=str(kept.storage.directory / newest.name)))
    resumed.restore()
    assert (left(resumed), resumed.storage.index.best) == (["epoch-0002", "epoch-0003"], "epoch-0002")


def test_weights_that_are_no_numbers_are_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = trainer()
    kept = keeper(tmp_path, made)
    epoch(kept, made, 0.5)
    made.model.trainable_variables[0].assign(np.full((4, 3), np.nan))
    made.epoch = 2
    kept.save({}, trained(made))
    assert left(kept) == ["epoch-0001"]
    assert "no checkpoint: some weights are not finite numbers" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["missing", "cut", "ranks", "world"])
def test_a_checkpoint_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, damage: str) -> None:
    made = trainer()
    made.epoch, made.step = 1, 2
    keeper(tmp_path / "old", made).save({})
    point = tmp_path / "old" / "run" / "checkpoints" / "epoch-0001-step-000002"
    data = point / "state.data-00000-of-00001"
    if damage == "cut":
        data.write_bytes(data.read_bytes()[:100])
    elif damage == "world":
        text = (point / "checkpoint.json").read_text()
        Checkpoint.model_validate_json(text).model_copy(update={"world": 2}).write(point / "checkpoint.json")
    else:
        {"missing": data, "ranks": point / "ranks.npz"}[damage].unlink()
    with pytest.raises(SystemExit, match=f"the checkpoint {point} cannot be used: .+"):
        keeper(tmp_path / "new", trainer(resume=str(point))).restore()


def test_a_checkpoint_that_is_being_written_is_none_yet(tmp_path: Path) -> None:
    made = trainer()
    kept = keeper(tmp_path, made)
    (kept.storage.directory / ".unfinished").mkdir()
    # It had its name, and the program was killed before the index had it.
    (kept.storage.directory / "epoch-0001").mkdir()
    epoch(kept, made, 0.5)
    assert left(kept) == ["epoch-0001"]
    assert kept.storage.index.entries == [
        CheckpointEntry(name="epoch-0001", epoch=1, step=4, world=1, whole=True, top1=0.5)
    ]


def test_a_run_leaves_itself_the_time_of_what_took_longest(tmp_path: Path) -> None:
    watch = StopControl(tmp_path, trainer(max_time=1e6))
    assert watch.has_time_for("step", "checkpoint", "evaluation")
    with watch.measure("evaluation"):
        pass
    watch._record_longest("checkpoint", 1e6)
    watch._record_longest("checkpoint", 1.0)
    assert watch.has_time_for("step", "evaluation")
    assert not watch.has_time_for("checkpoint")
    assert watch.votes().numpy().tolist() == [0, 1, 0, 1]


def test_a_slow_first_step_does_not_end_a_run_as_if_all_were_as_slow(tmp_path: Path) -> None:
    made = trainer(max_time=1e6)
    made.test_split = batches.Split(800, lambda index, seed: (index, seed), 1)
    watch = StopControl(tmp_path, made)
    watch._record_longest("first", 1e5)
    assert not watch.has_time_for(*["step"] * 7)
    assert watch.has_time_for("step", "step", "evaluation")
    watch._record_longest("step", 1e4)
    assert watch.has_time_for("step", "step")
    assert not watch.has_time_for("evaluation")


def test_rank_0_looks_for_the_file_by_which_it_is_asked_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.trainer.stopping.POLL_SECONDS", 0.0)
    watch = StopControl(tmp_path, trainer(checkpoint_every=1e-9))
    assert watch.agree() == (0, 0, 1, 1)
    (tmp_path / "stop").touch()
    assert watch.agree() == (1, 0, 1, 1)


def test_a_signal_is_a_wish_and_interrupts_nothing(tmp_path: Path) -> None:
    watch = StopControl(tmp_path, trainer())
    signal.raise_signal(signal.SIGTERM)
    assert watch.agree() == (1, 0, 0, 1)
