"""Checkpoints: all that a run needs to continue bit for bit as if it had never stopped.

    checkpoints/index.json               Checkpoints: their names, and the best by test top-1
    checkpoints/epoch-0002/              after training epoch 2, before its evaluation, which can be repeated
    checkpoints/epoch-0003-step-000037/  within epoch 3, after step 37 of the run
        state.*                          TensorFlow's: rank 0's model, the optimizer, its loss scale
        ranks.npz                        state that differs by rank, as RANK/NAME
        checkpoint.json                  Checkpoint: the run's position, and the results of its epochs

Nothing else that a run depends on changes. The order of samples and their augmentation are functions of the seed and
the epoch, the learning rate is one of the step; random numbers within the model come from its integer variables. State
that differs by rank: the variables that are not trained (batch normalisation's statistics within an epoch, those
integers), the sums of the epoch's scores, and the samples found damaged. Ranks send it to rank 0, which alone writes.

`checkpoint_directory` stores checkpoints and decides which are kept.
"""

import shutil
import sys
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Checkpoint, CheckpointEntry, Checkpoints, Epoch, TrainConfig, Trained
from orchestrator.schema.hard_links import link_or_copy
from orchestrator.trainer.checkpoints import checkpoint_directory as checkpoints_directory
from orchestrator.trainer.checkpoints.checkpoint_directory import Storage
from orchestrator.trainer.comm import compressed
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.results import say
from orchestrator.trainer.stop_conditions import StopControl

STATE_FILE, RANKS_FILE, CHECKPOINT_FILE = "state", "ranks.npz", "checkpoint.json"
EXCHANGE_KEYS = ("compression", "hierarchical")  # depend on the number of ranks
AUTO_KEYS = ("precision", *EXCHANGE_KEYS, "convolutions", "xla")  # a resumed run keeps what "auto" or None became
Arrays = dict[str, np.ndarray]
# What reading a missing, truncated or damaged checkpoint raises.
UNUSABLE = (OSError, LookupError, ValueError, EOFError, zipfile.BadZipFile, AssertionError, tf.errors.OpError)


class CheckpointManager:
    """The checkpoints of one run. Its methods are collective calls; only rank 0 writes."""

    def __init__(self, directory: Path, trainer: Trainer, stop_control: StopControl) -> None:
        self.storage = Storage(directory, trainer.config.keep_checkpoints)
        self.trainer, self.stop_control, self.epochs = trainer, stop_control, list[Epoch]()
        if hvd.rank() == 0:
            directory.mkdir(parents=True, exist_ok=True)  # tells the supervisor that there is a trainer to ask

    def save(self, epoch_progress: Arrays, trained: "Trained | None" = None) -> None:
        """Write a checkpoint of the run's state.

        ``epoch_progress`` holds this rank's sums and times of an epoch that is not ``trained`` yet. If weights are not
        finite, no checkpoint is written, and a run that skips no steps ends: max pooling drops what is not a number, so
        the loss can stay finite.
        """
        trainer = self.trainer
        damaged = np.array(sorted(trainer.train_split.checker.damaged), np.int64)
        variables = {str(n): v.numpy() for n, v in enumerate(trainer.model.non_trainable_variables)}
        rank_state = {**epoch_progress, "damaged": damaged, **variables}
        finite, rank_states = zip(*hvd.allgather_object((_weights_are_finite(trainer), rank_state)), strict=True)
        if not all(finite):
            return self._report_nonfinite()
        if hvd.rank() == 0:
            with self.trainer.telemetry.checkpoint(), self.stop_control.measure("checkpoint"):
                self._write(rank_states, trained)
            self.stop_control.last_checkpoint = time.monotonic()
        trainer.resumable = True

    def _report_nonfinite(self) -> None:
        trainer, problem = self.trainer, "no checkpoint written: some weights are not finite"
        if trainer.guard.on:
            return say(problem)
        position = f"after step {trainer.step} (epoch {trainer.epoch})"
        sys.exit(f"{problem} {position}: use a smaller --learning-rate in a new run")

    def _write(self, rank_states: "tuple[Arrays, ...]", trained: "Trained | None") -> None:
        trainer = self.trainer
        point = Checkpoint(
            epoch=trainer.epoch,
            step=trainer.step,
            world=hvd.size(),
            precision=trainer.config.precision,
            compression=trainer.config.compression,
            hierarchical=trainer.config.hierarchical,
            convolutions=trainer.config.convolutions,
            xla=trainer.config.xla,
            trained=trained,
            epochs=self.epochs,
        )

        def fill(directory: Path) -> None:
            tf.train.Checkpoint(model=trainer.model, optimizer=trainer.optimizer).write(str(directory / STATE_FILE))
            arrays = {f"{rank}/{name}": v for rank, state in enumerate(rank_states) for name, v in state.items()}
            np.savez(directory / RANKS_FILE, **arrays)
            point.write(directory / CHECKPOINT_FILE)

        position = point.model_dump(include={"epoch", "step", "world"})
        self.storage.add(CheckpointEntry(name=_name(point), whole=bool(trained), **position), fill)

    def add_evaluation(self, epoch: Epoch) -> None:
        """Add the evaluation's scores to the newest checkpoint if it is this epoch's."""
        self.epochs.append(epoch)
        newest = self.storage.newest
        if hvd.rank() or newest is None or newest.epoch != epoch.epoch:
            return
        path = self.storage.directory / newest.name / CHECKPOINT_FILE
        point = Checkpoint.model_validate_json(path.read_text())
        point.model_copy(update={"epochs": self.epochs}).write(path)
        self.storage.publish(newest.model_copy(update={"top1": epoch.test.top1}))

    def restore(self) -> "tuple[Checkpoint | None, Arrays]":
        """Restore the trainer from the checkpoint that the run resumes, if any.

        Ends the program if the checkpoint cannot be read, or lies within an epoch and has another number of ranks.

        Returns:
            The checkpoint, None without one, and the rank's sums and times of the epoch that it lies in.
        """
        if self.trainer.config.resume is None:
            return None, {}
        source = Path(self.trainer.config.resume)
        try:
            point = Checkpoint.model_validate_json((source / CHECKPOINT_FILE).read_text())
            epoch_progress = self._restore(source, point)
        except UNUSABLE as error:
            again = f"orchestrator train --resume {source.parents[1].name}"
            remedy = f"if it is damaged, remove it on the head, and `{again}` continues from the one before"
            sys.exit(f"the checkpoint {source} cannot be used: {error}: {remedy}")
        try:
            if hvd.rank() == 0:
                self._link_from(source)
        except OSError as error:
            sys.exit(f"the checkpoint {source} cannot be linked to this run: {error}")
        self.trainer.resumable = True
        return point, epoch_progress

    def _restore(self, source: Path, point: Checkpoint) -> Arrays:
        trainer, same_world = self.trainer, point.world == hvd.size()
        if not same_world and point.trained is None:
            wrote = f"{point.world} ranks wrote it within an epoch, this run has {hvd.size()}"
            sys.exit(f"the checkpoint {source} cannot be used: {wrote}: use --np {point.world}")
        variables = trainer.model.non_trainable_variables
        initial_integers = {str(n): v.numpy() for n, v in enumerate(variables) if _is_integer(v)}
        if hvd.rank() == 0:
            state = tf.train.Checkpoint(model=trainer.model, optimizer=trainer.optimizer)
            state.read(str(source / STATE_FILE)).assert_existing_objects_matched()
        compressed.broadcast_variables([v.value for v in [*trainer.model.variables, *trainer.optimizer.variables]])
        rank_state = _load_rank_state(source, hvd.rank()) if same_world else initial_integers
        for number, variable in enumerate(variables):
            if str(number) in rank_state:
                variable.assign(rank_state[str(number)])
        if trainer.config.on_bad_sample == "skip":  # else they may be repaired now, or end the run
            trainer.train_split.checker.damaged.update(rank_state.get("damaged", np.array([])).tolist())
        self.epochs = list(point.epochs)
        trainer.epoch = point.epoch if point.trained else point.epoch - 1
        trainer.step = trainer.steps_before = point.step if same_world else point.epoch * trainer.steps_per_epoch
        return rank_state

    def _link_from(self, source: Path) -> None:
        """Link or copy what a run that resumes this one may need, so that the resumed run can be removed."""
        index = checkpoints_directory.read(source.parent)
        earlier = [entry for entry in index.entries if entry.epoch <= self.trainer.epoch]
        whole = Checkpoints(entries=earlier).newest_whole
        for entry in index.entries:
            if entry.name == source.name or (entry in earlier and (entry == whole or entry.name == index.best)):
                copy = partial(shutil.copytree, source.parent / entry.name, copy_function=link_or_copy)
                self.storage.add(entry, partial(copy, dirs_exist_ok=True))


def unchosen(config: TrainConfig) -> list[str]:
    """Return the keys whose values the run chooses."""
    return [key for key in AUTO_KEYS if getattr(config, key) in ("auto", None)]


def with_resumed_choices(config: TrainConfig, world: int) -> TrainConfig:
    """Return ``config`` with the resumed run's choices for "auto", which might be chosen differently now.

    Those of the exchange count only if this run has as many ranks: ``world``.
    """
    auto_keys = unchosen(config)
    if not auto_keys or config.resume is None:
        return config
    try:
        point = Checkpoint.model_validate_json((Path(config.resume) / CHECKPOINT_FILE).read_text())
    except (OSError, ValueError):
        return config  # reported later, when the whole file is validated
    kept = [key for key in auto_keys if point.world == world or key not in EXCHANGE_KEYS]
    return config.model_copy(update={key: getattr(point, key) for key in kept})


def _name(point: Checkpoint) -> str:
    return f"epoch-{point.epoch:04d}" + ("" if point.trained else f"-step-{point.step:06d}")


def _load_rank_state(source: Path, rank: int) -> Arrays:
    with np.load(source / RANKS_FILE) as rank_states:
        return {name.partition("/")[2]: rank_states[name] for name in rank_states if name.startswith(f"{rank}/")}


def _weights_are_finite(trainer: Trainer) -> bool:
    return all(np.isfinite(v.numpy()).all() for v in trainer.model.variables if not _is_integer(v))


def _is_integer(variable: Any) -> bool:
    return "int" in str(variable.dtype)
