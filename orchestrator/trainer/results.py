"""Results of a training run, and its progress output: results.json, results.csv and progress lines."""

import csv
import platform
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import horovod
import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from orchestrator import __version__
from orchestrator.bottleneck import explain
from orchestrator.schema import Epoch, Results, Unfinished, World, accuracy
from orchestrator.trainer import averages_over_ranks
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.data import local_copy
from orchestrator.trainer.optim import schedule
from orchestrator.trainer.rank_setup import Trainer

PROGRESS_SECONDS = 1.0
# Of results.csv, with "_" for "."
COLUMNS = ("epoch", "learning_rate", "train.loss", "train.top1", "test.loss", "test.top1", "test.top5",
           "images_per_second", "seconds")  # fmt: skip


def say(line: str, end: str = "\n") -> None:
    r"""Print from rank 0 only; ``end`` is ``"\\r"`` for a line that the next one replaces."""
    if hvd.rank() == 0:
        print(line, end=end, flush=True)


class Clock:
    """Clock of an epoch's training steps; its rate excludes the first step of the program, which prepares the others.

    The rate ends with the last step, since TensorFlow has taken up to a second to dispose of the input afterwards. It
    is 0 if no step counts.
    ``before`` is the ``timing`` of the clock of the run that this one continues within the epoch.
    """

    def __init__(self, trainer: Trainer, before: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        self.trainer, self.before = trainer, before
        self.started = self.from_time = self.to_time = self.last_print = time.perf_counter()
        self.from_step = trainer.step

    def tick(self, sums: tf.Tensor) -> None:
        """Record the end of a step; ``sums`` are the training step's sums over the epoch."""
        trainer, now = self.trainer, time.perf_counter()
        self.to_time = now
        if trainer.step == trainer.steps_before + 1:
            self.from_time, self.from_step = now, trainer.step
        if now - self.last_print >= PROGRESS_SECONDS:
            self.last_print = now
            loss, top1, _, images = sums.numpy()
            if images:  # else all steps of the epoch so far were skipped
                trainer.telemetry.scores("train", float(loss / images), float(top1 / images))
            scores = f"  loss {loss / images:.3f}" if images else ""
            say(
                f"epoch {trainer.epoch}/{trainer.epochs}  step {trainer.epoch_step}/{trainer.steps_per_epoch}"
                f"{scores}  {self.rate * hvd.size():.0f} images/s",
                end="\r",
            )

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock between two steps, for work that is not training, such as writing a checkpoint."""
        paused = time.perf_counter()
        yield
        seconds = time.perf_counter() - paused
        self.started, self.from_time, self.to_time = (
            moment + seconds for moment in (self.started, self.from_time, self.to_time)
        )

    @property
    def timing(self) -> tuple[float, float, float]:
        """Seconds of training, number of steps that count for the rate, and their seconds."""
        seconds, steps, stepping = self.before
        return (
            seconds + time.perf_counter() - self.started,
            steps + self.trainer.step - self.from_step,
            stepping + self.to_time - self.from_time,
        )

    @property
    def seconds(self) -> float:
        return self.timing[0]

    @property
    def rate(self) -> float:
        """Images per second of this rank."""
        _, steps, seconds = self.timing
        return steps * self.trainer.batch / max(seconds, 1e-9)


class Writer:
    """Writer of rank 0's results.json and results.csv, which are replaced after every epoch."""

    def __init__(self, directory: Path, trainer: Trainer, epochs: list[Epoch]) -> None:
        """Print model, data and ranks, and start the results.

        ``epochs`` are those of the run that this one continues. It is a collective call, as are the methods.
        """
        self.directory, self.trainer = directory, trainer
        config = trainer.config
        hosts = hvd.allgather_object(socket.gethostname())
        self.results = results = Results(
            run=config.run,
            config=config,
            versions={
                "orchestrator": __version__,
                "python": platform.python_version(),
                "tensorflow": tf.__version__,
                "keras": keras.__version__,
                "horovod": horovod.__version__,
            },
            world=World(size=hvd.size(), hosts=hosts),
            parameters=sum(int(np.prod(v.shape)) for v in trainer.model.trainable_variables),
            effective_batch_size=trainer.batch * hvd.size(),
            peak_learning_rate=schedule.peak(config, allreduce.scale(config)),
            communication=allreduce.describe(config, [v.shape for v in trainer.variables]),
            epochs=epochs,
            resumed_from=Path(config.resume).parents[1].name if config.resume else None,
            epochs_before=trainer.epoch,
            steps_before=trainer.steps_before,
            data_path=trainer.data_path,
            chosen=trainer.chosen,
        )
        if trainer.data_path:
            say(f"reading {config.dataset} from {local_copy.describe(trainer.data_path)}: {trainer.data_path}")
        batch = f"{trainer.passes} x {trainer.images_per_pass}" if trainer.passes > 1 else str(trainer.batch)
        say(
            f"{config.model} ({results.parameters:,} parameters) on {config.dataset}: {trainer.train_split.size} "
            f"training and {trainer.test_split.size} test images, {hvd.size()} ranks x {batch} images, "
            f"learning rate {results.peak_learning_rate:g}, {config.precision}"
        )
        if results.resumed_from:
            say(f"resumes {results.resumed_from} from {Path(config.resume or '').name}")

    def add(self, epoch: Epoch) -> None:
        self._update({"epochs": [*self.results.epochs, epoch]})
        say(epoch.line(self.trainer.epochs))

    def end(self, why: str, unfinished: "Unfinished | None") -> None:
        """Write why the run ended, and the times of an ``unfinished`` epoch; print what it skipped, and its limit."""
        self._update({"ended": why, "unfinished": unfinished})
        if left_out := describe_skipped(self.results):
            say(left_out)
        if (top1 := self.results.config.until_top1) is not None:
            say(accuracy.describe(self.results, top1))
        if explanation := explain(self.results):
            say(str(explanation))

    def _update(self, changes: dict[str, object]) -> None:
        damaged = averages_over_ranks.damaged_samples(self.trainer)
        skipped = {"damaged": damaged, "skipped_steps": self.trainer.guard.skipped}
        self.results = self.results.model_copy(update={**changes, **skipped})
        if hvd.rank() == 0:
            self.results.write(self.directory / "results.json")
            _write_csv(self.directory / "results.csv", self.results.epochs)


def describe_skipped(results: Results) -> str:
    """Describe the samples and steps that a run skipped; empty if there are none."""
    samples, steps = len(results.damaged), results.skipped_steps
    parts = [f"{samples} damaged sample{'s' * (samples != 1)}"] * bool(samples)
    parts += [f"{steps} step{'s' * (steps != 1)} whose loss was not a number"] * bool(steps)
    return f"skipped {' and '.join(parts)}" if parts else ""


def _write_csv(path: Path, epochs: list[Epoch]) -> None:
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(column.replace(".", "_") for column in COLUMNS)
        table.writerows(map(attrgetter(*COLUMNS), epochs))
    unfinished.replace(path)
