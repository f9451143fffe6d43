"""Content and choice of checkpoints, and the time that a run reserves, on one rank in this process."""

import errno
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
from orchestrator.trainer.stop_conditions import StopControl
from tests import samples

STEPS = 4
SCORES = Scores(loss=1.0, top1=0.5, top5=0.9, images=8)


@pytest.fixture(autouse=True)
def termination() -> Iterator[None]:
    """Restore the SIGTERM handler that StopControl replaces."""
    hvd.init()
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def build_trainer(**changes: Any) -> Trainer:
    """Return a model with all kinds of variables, and an optimizer that scales the loss."""
    keras.utils.set_random_seed(1)
    inside = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=3)]
    model = keras.Sequential([keras.Input((4,)), *inside, keras.layers.Dense(2)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    optimizer.build(model.trainable_variables)
    nothing = batches.Split(0, lambda index, seed: (index, seed), 1)
    return Trainer(samples.train_config(**changes), model, optimizer, nothing, nothing, 8, STEPS)


def build_manager(directory: Path, trainer: Trainer) -> CheckpointManager:
    return CheckpointManager(directory / "run" / "checkpoints", trainer, StopControl(directory, trainer))


def step(trainer: Trainer) -> None:
    with tf.GradientTape() as tape:
        loss = trainer.optimizer.scale_loss(tf.reduce_mean(trainer.model(tf.random.normal([8, 4]), training=True) ** 2))
    trainer.optimizer.apply(tape.gradient(loss, trainer.variables), trainer.model.trainable_variables)
    trainer.step += 1


def values(trainer: Trainer) -> list[np.ndarray]:
    return [v.numpy() for v in [*trainer.model.variables, *trainer.optimizer.variables]]


def trained(trainer: Trainer) -> Trained:
    rates: dict[str, Any] = {"images_per_second": 1.0, "images_per_second_per_rank": [1.0], "seconds": 1.0}
    progress = {"epoch": trainer.epoch, "steps": trainer.step, "learning_rate": 0.1}
    return Trained(**progress, **rates, train=SCORES, peak_memory_per_rank=[1])


def epoch(manager: CheckpointManager, trainer: Trainer, top1: float) -> None:
    """Add an epoch that reaches ``top1``."""
    trainer.epoch += 1
    trainer.step = trainer.epoch * STEPS
    manager.save({}, trained(trainer))
    test = SCORES.model_copy(update={"top1": top1})
    manager.add_evaluation(Epoch(**trained(trainer).model_dump(), test=test, test_seconds=1.0, weights_sha256="00"))


def on_disk(manager: CheckpointManager) -> list[str]:
    names = sorted(path.name for path in manager.storage.directory.iterdir() if path.is_dir())
    assert names == sorted(name.name for name in manager.storage.index.entries)
    return names


def test_restore_brings_back_all_state(tmp_path: Path) -> None:
    """Weights, statistics, dropout's state, momentum, iterations, loss scale with its counter, damaged samples."""
    before = build_trainer()
    before.epoch = 2
    before.step = STEPS
    for _ in range(2):
        step(before)
    before.optimizer.dynamic_scale.assign(16.0)
    before.train_split.checker.damaged.update({7, 3})
    epoch_progress = {"sums": np.array([1, 2, 3, 4], np.float32), "timing": np.array([5.0, 6.0, 7.0])}
    build_manager(tmp_path / "before", before).save(epoch_progress)
    point = tmp_path / "before" / "run" / "checkpoints" / "epoch-0002-step-000006"
    after = build_trainer(resume=str(point), on_bad_sample="skip")
    fresh = values(after)
    restored, own = build_manager(tmp_path / "after", after).restore()
    paths = [v.path.rpartition("/")[2] for v in [*after.model.variables, *after.optimizer.variables]]
    unchanged = {path for path, a, b in zip(paths, fresh, values(before), strict=True) if (a == b).all()}
    assert unchanged <= {"learning_rate", "iteration"}  # of the outer optimizer, which counts no steps
    assert all((a == b).all() for a, b in zip(values(after), values(before), strict=True))
    assert {name: own[name].tolist() for name in epoch_progress} == {k: v.tolist() for k, v in epoch_progress.items()}
    assert after.train_split.checker.damaged == {3, 7}
    assert (restored is not None and restored.trained, after.epoch, after.step, after.steps_before) == (None, 1, 6, 6)


@pytest.mark.parametrize(("on_bad_sample", "left_out"), [("skip", {7}), ("stop", set())])
def test_resumed_run_leaves_out_samples_only_if_it_skips(
    tmp_path: Path, on_bad_sample: str, left_out: set[int]
) -> None:
    """With --on-bad-sample stop, a sample that was repaired is used again, and one that was not ends the run."""
    before = build_trainer(on_bad_sample="skip")
    before.train_split.checker.damaged.add(7)
    manager = build_manager(tmp_path / "before", before)
    epoch(manager, before, 0.5)
    point = manager.storage.directory / "epoch-0001"
    after = build_trainer(resume=str(point), on_bad_sample=on_bad_sample)
    build_manager(tmp_path / "after", after).restore()
    assert after.train_split.checker.damaged == left_out


def test_newest_and_best_are_kept(tmp_path: Path) -> None:
    trainer = build_trainer(keep_checkpoints=2)
    manager = build_manager(tmp_path, trainer)
    for top1 in (0.1, 0.9, 0.3, 0.2, 0.4):
        epoch(manager, trainer, top1)
    assert (on_disk(manager), manager.storage.index.best) == (
        ["epoch-0002", "epoch-0004", "epoch-0005"],
        "epoch-0002",
    )
    epoch(manager, trainer, 0.95)
    assert (on_disk(manager), manager.storage.index.best) == (["epoch-0005", "epoch-0006"], "epoch-0006")


def test_index_is_flushed_before_old_checkpoints_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = build_trainer(keep_checkpoints=1)
    manager = build_manager(tmp_path, trainer)
    epoch(manager, trainer, 0.1)
    fsync, flushes = os.fsync, []

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        if Path(f"/proc/self/fd/{descriptor}").resolve() == manager.storage.directory:
            index = Checkpoints.model_validate_json((manager.storage.directory / "index.json").read_text())
            flushes.append(
                ([entry.name for entry in index.entries], (manager.storage.directory / "epoch-0001").exists())
            )

    monkeypatch.setattr(os, "fsync", flush)
    epoch(manager, trainer, 0.9)
    assert (["epoch-0002"], True) in flushes


def test_resumed_run_links_its_start_and_the_best_checkpoint(tmp_path: Path) -> None:
    trainer = build_trainer(keep_checkpoints=1)
    manager = build_manager(tmp_path / "old", trainer)
    for top1 in (0.1, 0.9, 0.3):
        epoch(manager, trainer, top1)
    again = build_trainer(keep_checkpoints=1, resume=str(manager.storage.directory / "epoch-0003"))
    resumed = build_manager(tmp_path / "new", again)
    resumed.restore()
    assert (on_disk(resumed), resumed.storage.index.best) == (["epoch-0002", "epoch-0003"], "epoch-0002")
    assert (again.epoch, again.step, len(resumed.epochs)) == (3, 12, 3)
    epoch(resumed, again, 0.5)
    assert on_disk(resumed) == ["epoch-0002", "epoch-0004"]
    assert on_disk(manager) == ["epoch-0002", "epoch-0003"]


def test_resumed_run_links_the_last_whole_epoch_for_other_ranks(tmp_path: Path) -> None:
    trainer = build_trainer(keep_checkpoints=3)
    manager = build_manager(tmp_path / "old", trainer)
    for top1 in (0.1, 0.9, 0.3):
        epoch(manager, trainer, top1)
    trainer.epoch, trainer.step = 4, 3 * STEPS + 2
    manager.save({"sums": np.zeros(4, np.float32), "timing": np.zeros(3)})
    within = "epoch-0004-step-000014"
    resumed = build_manager(tmp_path / "new", build_trainer(resume=str(manager.storage.directory / within)))
    resumed.restore()
    assert on_disk(resumed) == ["epoch-0002", "epoch-0003", within]


def test_run_resumes_on_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = build_trainer()
    manager = build_manager(tmp_path / "old", trainer)
    epoch(manager, trainer, 0.5)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    resumed = build_manager(tmp_path / "new", build_trainer(resume=str(manager.storage.directory / "epoch-0001")))
    resumed.restore()
    assert on_disk(resumed) == ["epoch-0001"]


def test_best_is_kept_after_resuming_with_more_ranks(tmp_path: Path) -> None:
    trainer = build_trainer(keep_checkpoints=1)
    manager = build_manager(tmp_path / "old", trainer)
    for top1 in (0.1, 0.9, 0.3):
        epoch(manager, trainer, top1)
    best, newest = manager.storage.index.entries
    fewer = best.model_copy(update={"step": 10 * newest.step})
    manager.storage.index.model_copy(update={"entries": [fewer, newest]}).write(
        manager.storage.directory / "index.json"
    )
    resumed = build_manager(
        tmp_path / "new", build_trainer(keep_checkpoints=1, resume=str(manager.storage.directory / newest.name))
    )
    resumed.restore()
    assert (on_disk(resumed), resumed.storage.index.best) == (["epoch-0002", "epoch-0003"], "epoch-0002")


@pytest.mark.parametrize("on_nan", ["stop", "skip"])
def test_nonfinite_weights_are_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], on_nan: str) -> None:
    trainer = build_trainer(on_nan=on_nan)
    manager = build_manager(tmp_path, trainer)
    epoch(manager, trainer, 0.5)
    trainer.model.trainable_variables[0].assign(np.full((4, 3), np.nan))
    trainer.epoch = 2
    problem = "no checkpoint written: some weights are not finite"
    if on_nan == "skip":
        manager.save({}, trained(trainer))
        assert problem in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit, match=rf"{problem} after step 4 \(epoch 2\): use a smaller --learning-rate"):
            manager.save({}, trained(trainer))
    assert on_disk(manager) == ["epoch-0001"]


@pytest.mark.parametrize("damage", ["missing", "cut", "ranks", "truncated", "world"])
def test_unusable_checkpoint_is_named_with_the_reason(tmp_path: Path, damage: str) -> None:
    trainer = build_trainer()
    trainer.epoch, trainer.step = 1, 2
    build_manager(tmp_path / "old", trainer).save({})
    point = tmp_path / "old" / "run" / "checkpoints" / "epoch-0001-step-000002"
    data = point / "state.data-00000-of-00001"
    if damage == "cut":
        data.write_bytes(data.read_bytes()[:100])
    elif damage == "truncated":
        (point / "ranks.npz").write_bytes((point / "ranks.npz").read_bytes()[:20])
    elif damage == "world":
        text = (point / "checkpoint.json").read_text()
        Checkpoint.model_validate_json(text).model_copy(update={"world": 2}).write(point / "checkpoint.json")
    else:
        {"missing": data, "ranks": point / "ranks.npz"}[damage].unlink()
    remedy = "use --np 2$" if damage == "world" else "if it is damaged, remove it .*`orchestrator train --resume run`"
    with pytest.raises(SystemExit, match=f"the checkpoint {point} cannot be used: .+: {remedy}"):
        build_manager(tmp_path / "new", build_trainer(resume=str(point))).restore()


def test_unfinished_checkpoint_is_not_listed(tmp_path: Path) -> None:
    trainer = build_trainer()
    manager = build_manager(tmp_path, trainer)
    (manager.storage.directory / ".unfinished").mkdir()
    # The checkpoint had its name when the program was killed, but the index did not list it.
    (manager.storage.directory / "epoch-0001").mkdir()
    epoch(manager, trainer, 0.5)
    assert on_disk(manager) == ["epoch-0001"]
    assert manager.storage.index.entries == [
        CheckpointEntry(name="epoch-0001", epoch=1, step=4, world=1, whole=True, top1=0.5)
    ]


def test_time_left_is_compared_with_the_longest_duration(tmp_path: Path) -> None:
    stop_control = StopControl(tmp_path, build_trainer(max_time=1e6))
    assert stop_control.has_time_for("step", "checkpoint", "evaluation")
    with stop_control.measure("evaluation"):
        pass
    stop_control._record_longest("checkpoint", 1e6)
    stop_control._record_longest("checkpoint", 1.0)
    assert stop_control.has_time_for("step", "evaluation")
    assert not stop_control.has_time_for("checkpoint")
    assert stop_control.votes().numpy().tolist() == [0, 1, 0, 1]


def test_slow_first_step_does_not_end_the_run(tmp_path: Path) -> None:
    trainer = build_trainer(max_time=1e6)
    trainer.test_split = batches.Split(800, lambda index, seed: (index, seed), 1)
    stop_control = StopControl(tmp_path, trainer)
    stop_control._record_longest("first", 1e5)
    assert not stop_control.has_time_for(*["step"] * 7)
    assert stop_control.has_time_for("step", "step", "evaluation")
    stop_control._record_longest("step", 1e4)
    assert stop_control.has_time_for("step", "step")
    assert not stop_control.has_time_for("evaluation")


def test_rank_0_votes_to_stop_if_the_stop_file_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.trainer.stop_conditions.POLL_SECONDS", 0.0)
    stop_control = StopControl(tmp_path, build_trainer(checkpoint_every=1e-9))
    assert stop_control.agree() == (0, 0, 1, 1)
    (tmp_path / "stop").touch()
    assert stop_control.agree() == (1, 0, 1, 1)


def test_sigterm_becomes_a_vote_to_stop(tmp_path: Path) -> None:
    stop_control = StopControl(tmp_path, build_trainer())
    signal.raise_signal(signal.SIGTERM)
    assert stop_control.agree() == (1, 0, 0, 1)
