"""Checkpoints: all that a run needs to go on bit for bit as if it had never stopped.

    checkpoints/index.json               Checkpoints: which there are, and the best by test top-1
    checkpoints/epoch-0002/              when epoch 2 is trained, before its evaluation, which can be made up for
    checkpoints/epoch-0003-step-000037/  within epoch 3, after step 37 of the run
        state.*                          TensorFlow's: rank 0's model, the optimizer, its loss scale
        ranks.npz                        what differs by rank, as RANK/NAME
        checkpoint.json                  Checkpoint: where the run stands, and what its epochs gave

Of what a run depends on, only this changes. The order of samples and what augments them are functions of the seed and
the epoch, the learning rate is one of the step; random numbers within the model come from its integer variables.
What differs by rank are the variables that are not trained (batch normalisation's statistics within an epoch, those
integers), the sums of the epoch's scores, and which samples turned out to be damaged: ranks send them to rank 0, which
alone writes.

How they are put away and which are kept: `storage`.
"""

import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Checkpoint, Epoch, Kept, TrainConfig, Trained
from orchestrator.trainer import exchange, storage
from orchestrator.trainer.endings import Watch
from orchestrator.trainer.outcome import say
from orchestrator.trainer.setup import Trainer
from orchestrator.trainer.storage import Storage

STATE, RANKS, POINT = "state", "ranks.npz", "checkpoint.json"
SETTLED = ("precision", "compression")  # what a run keeps to that was "auto"
Arrays = dict[str, np.ndarray]


class Keeper:
    """The checkpoints of one run. What its methods write, rank 0 writes; every rank calls them."""

    def __init__(self, directory: Path, trainer: Trainer, watch: Watch) -> None:
        self.storage = Storage(directory, trainer.config.keep_checkpoints)
        self.trainer, self.watch, self.epochs = trainer, watch, list[Epoch]()
        if hvd.rank() == 0:
            directory.mkdir(parents=True, exist_ok=True)  # by which the supervisor knows that there is one to ask

    def save(self, tallies: Arrays, trained: "Trained | None" = None) -> None:
        """Write down where the run stands; ``tallies`` are this rank's, of an epoch that is not ``trained`` yet.

        Weights that are no numbers are not written: the checkpoint before is worth more.
        """
        trainer = self.trainer
        damaged = np.array(sorted(trainer.train_split.readable.damaged), np.int64)
        variables = {str(n): v.numpy() for n, v in enumerate(trainer.model.non_trainable_variables)}
        own = {**tallies, "damaged": damaged, **variables}
        finite, everyones = zip(*hvd.allgather_object((_finite(trainer), own)), strict=True)
        if not all(finite):
            return say("no checkpoint: some weights are not finite numbers")
        if hvd.rank() == 0:
            with self.trainer.record.checkpoint(), self.watch.measured("checkpoint"):
                self._write(everyones, trained)
            self.watch.saved = time.monotonic()

    def _write(self, everyones: "tuple[Arrays, ...]", trained: "Trained | None") -> None:
        trainer = self.trainer
        point = Checkpoint(
            epoch=trainer.epoch,
            step=trainer.step,
            world=hvd.size(),
            precision=trainer.config.precision,
            compression=trainer.config.compression,
            trained=trained,
            epochs=self.epochs,
        )

        def fill(place: Path) -> None:
            tf.train.Checkpoint(model=trainer.model, optimizer=trainer.optimizer).write(str(place / STATE))
            np.savez(place / RANKS, **{f"{r}/{name}": v for r, own in enumerate(everyones) for name, v in own.items()})
            point.write(place / POINT)

        where = point.model_dump(include={"epoch", "step", "world"})
        self.storage.add(Kept(name=_name(point), whole=bool(trained), **where), fill)

    def close(self, epoch: Epoch) -> None:
        """Add what the evaluation gave to the newest checkpoint, if that is this epoch's."""
        self.epochs.append(epoch)
        newest = self.storage.newest
        if hvd.rank() or newest is None or newest.epoch != epoch.epoch:
            return
        path = self.storage.directory / newest.name / POINT
        point = Checkpoint.model_validate_json(path.read_text())
        point.model_copy(update={"epochs": self.epochs}).write(path)
        self.storage.name(newest.model_copy(update={"top1": epoch.test.top1}))

    def restore(self) -> "tuple[Checkpoint | None, Arrays]":
        """Put the trainer where the checkpoint stood that the run is to go on from, if it is to go on from one.

        Gives that with the rank's tallies. Ends the program where it cannot be read, or is of another number of ranks
        and within an epoch.
        """
        if self.trainer.config.resume is None:
            return None, {}
        source = Path(self.trainer.config.resume)
        try:
            point = Checkpoint.model_validate_json((source / POINT).read_text())
            tallies = self._restore(source, point)
        except (OSError, LookupError, ValueError, AssertionError, tf.errors.OpError) as error:
            sys.exit(f"the checkpoint {source} cannot be used: {error}")
        if hvd.rank() == 0:
            self._adopt(source)
        return point, tallies

    def _restore(self, source: Path, point: Checkpoint) -> Arrays:
        trainer, same = self.trainer, point.world == hvd.size()
        if not same and point.trained is None:
            raise ValueError(f"it is of {point.world} ranks and within an epoch, and here are {hvd.size()}")
        built = {str(n): v.numpy() for n, v in enumerate(trainer.model.non_trainable_variables) if _is_integer(v)}
        if hvd.rank() == 0:
            found = tf.train.Checkpoint(model=trainer.model, optimizer=trainer.optimizer)
            found.read(str(source / STATE)).assert_existing_objects_matched()
        exchange.from_first([v.value for v in [*trainer.model.variables, *trainer.optimizer.variables]])
        own = _of_rank(source, hvd.rank()) if same else built
        for number, variable in enumerate(trainer.model.non_trainable_variables):
            if str(number) in own:
                variable.assign(own[str(number)])
        trainer.train_split.readable.damaged.update(own.get("damaged", np.array([])).tolist())
        self.epochs = list(point.epochs)
        trainer.epoch = point.epoch if point.trained else point.epoch - 1
        trainer.step = trainer.first = point.step if same else point.epoch * trainer.steps_per_epoch
        return own

    def _adopt(self, source: Path) -> None:
        """Make the checkpoint ours, and the best so far: the run that is continued can then be removed."""
        index = storage.read(source.parent)
        for kept in index.kept:
            if kept.name == source.name or (kept.name == index.best and kept.epoch <= self.trainer.epoch):
                linked = partial(shutil.copytree, source.parent / kept.name, copy_function=os.link, dirs_exist_ok=True)
                self.storage.add(kept, linked)


def as_before(config: TrainConfig) -> TrainConfig:
    """``config`` with what a run had for "auto" which it is to go on from: it may stand for something else now."""
    unsettled = [key for key in SETTLED if getattr(config, key) == "auto"]
    if not unsettled or config.resume is None:
        return config
    try:
        point = Checkpoint.model_validate_json((Path(config.resume) / POINT).read_text())
    except (OSError, ValueError):
        return config  # what is wrong with it is said when it is read as a whole
    return config.model_copy(update={key: getattr(point, key) for key in unsettled})


def _name(point: Checkpoint) -> str:
    return f"epoch-{point.epoch:04d}" + ("" if point.trained else f"-step-{point.step:06d}")


def _of_rank(source: Path, rank: int) -> Arrays:
    with np.load(source / RANKS) as everyones:
        return {name.partition("/")[2]: everyones[name] for name in everyones if name.startswith(f"{rank}/")}


def _finite(trainer: Trainer) -> bool:
    return all(np.isfinite(v.numpy()).all() for v in trainer.model.variables if not _is_integer(v))


def _is_integer(variable: Any) -> bool:
    return "int" in str(variable.dtype)
