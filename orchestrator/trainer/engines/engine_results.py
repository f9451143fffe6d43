"""results.json of an engine, as ``train`` writes it, and its lines of progress."""

import platform
import resource
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from orchestrator import __version__
from orchestrator.schema import Epoch, Results, Scores, World
from orchestrator.trainer.engines import weight_files
from orchestrator.trainer.engines.step_inputs import Course

PROGRESS_SECONDS = 1.0
NAME_BYTES = 64  # of host names and digests that ranks tell each other


class Reporting(Protocol):
    """Interface of an engine that :class:`Report` uses.

    Attributes:
        versions: Versions of the engine's libraries.
        splits_time: Whether a step consists only of input and computing, because there are no other ranks.
    """

    versions: dict[str, str]
    splits_time: bool

    def sum(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sums of float64 ``numbers`` over all ranks. A collective call."""

    def weights(self) -> weight_files.Weights:
        """Return weights and statistics by name. A collective call."""


class Report:
    """One rank's clock and results; only rank 0 writes. The run's first step, which may compile, does not count.

    With ``hosts``, those of all ranks, this process alone knows of all of them.
    """

    def __init__(self, run_directory: Path, course: Course, engine: Reporting, hosts: "Sequence[str]" = ()) -> None:
        self.directory, self.course, self.engine, self.steps = run_directory, course, engine, 0
        self.alone = bool(hosts)
        self.times: list[tuple[float, float]] = []  # seconds of input and the rest of each step of the epoch
        self.printed = time.perf_counter()
        hosts = list(hosts) or self._gather_texts(socket.gethostname())
        self.weights = engine.weights()
        self.results = Results(
            run=course.config.run,
            config=course.config,
            engine=course.config.engine,
            versions={"orchestrator": __version__, "python": platform.python_version(), **engine.versions},
            world=World(size=course.world, hosts=hosts),
            parameters=sum(value.size for name, value in self.weights.items() if "/moving_" not in name),
            effective_batch_size=course.batch * course.world,
            peak_learning_rate=course.peak,
            epochs=[],
            data_path=course.config.data,
        )
        config, parameters = course.config, self.results.parameters
        self._say(
            f"{config.engine}: {config.model} ({parameters:,} parameters) on {config.dataset}: {len(course.train[1])} "
            f"training and {len(course.test[1])} test images, {course.world} ranks x {course.batch} images, "
            f"learning rate {course.peak:g}, {config.precision}"
        )

    def begin(self, epoch: int) -> None:
        """Start the clock of an epoch."""
        self.epoch, self.times, self.epoch_started = epoch, [], time.perf_counter()

    def step(self, input_seconds: float, other_seconds: float, sums: np.ndarray) -> None:
        """Record a step, and print the progress about once a second."""
        self.steps += 1
        if self.steps > 1:
            self.times.append((input_seconds, other_seconds))
        if time.perf_counter() - self.printed >= PROGRESS_SECONDS:
            self.printed = time.perf_counter()
            done = self.steps - (self.epoch - 1) * self.course.steps_per_epoch
            self._say(
                f"epoch {self.epoch}/{len(self.course.epochs)}  step {done}/{self.course.steps_per_epoch}"
                f"  loss {sums[0] / sums[3]:.3f}  {self._rate * self.course.world:.0f} images/s",
                end="\r",
            )

    def trained(self) -> None:
        """Stop the clock of the epoch's training."""
        self.seconds = time.perf_counter() - self.epoch_started

    def add(self, train: np.ndarray, test: np.ndarray, test_seconds: float) -> None:
        """Write the results of the epoch. A collective call.

        Args:
            train: Sums of scores over all ranks.
            test: Those of the evaluation.
            test_seconds: Seconds of the evaluation.
        """
        self.weights = self.engine.weights()
        digest = weight_files.digest(self.weights)
        if len(set(digests := self._gather_texts(digest))) != 1:
            raise RuntimeError(f"ranks disagree on the weights: {dict(enumerate(digests))}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        ranks = self._gather(np.array([self._rate, peak, *np.mean(self.times or [(0.0, 0.0)], axis=0)]))
        rates, peaks, input_seconds, compute_seconds = (column.tolist() for column in ranks.T)
        split = {"input_seconds": input_seconds, "compute_seconds": compute_seconds}
        split["communication_seconds"] = [0.0] * len(rates)
        epoch = Epoch(
            epoch=self.epoch,
            steps=self.steps,
            learning_rate=self.course.rate(self.steps - 1),
            train=_scores(train),
            images_per_second=sum(rates),
            images_per_second_per_rank=rates,
            peak_memory_per_rank=[int(peak) for peak in peaks],
            seconds=self.seconds,
            median_step_seconds=statistics.median(map(sum, self.times)) if self.times else None,
            test=_scores(test),
            test_seconds=test_seconds,
            weights_sha256=digest,
            **(split if self.engine.splits_time and self.times else {}),
        )
        self._write({"epochs": [*self.results.epochs, epoch]})
        self._say(epoch.line(len(self.course.epochs)))

    def end(self) -> None:
        """Write why the run ended, and the weights."""
        whole = self.steps == self.course.config.epochs * self.course.steps_per_epoch
        self._write({"ended": "until" if self.reached else "epochs" if whole else "steps"})
        if self.course.rank == 0:
            weight_files.write(self.directory / weight_files.FINAL, self.weights)

    @property
    def reached(self) -> bool:
        """Whether the last epoch was whole and reached the accuracy that ends the run; the same on every rank."""
        goal, whole = self.course.config.until_top1, self.steps == self.epoch * self.course.steps_per_epoch
        return goal is not None and whole and self.results.epochs[-1].test.top1 >= goal

    @property
    def _rate(self) -> float:
        """Images per second of this rank."""
        seconds = sum(map(sum, self.times))
        return len(self.times) * self.course.batch / seconds if seconds else 0.0

    def _gather(self, numbers: np.ndarray) -> np.ndarray:
        """Return the numbers of all ranks: float64 (ranks, numbers). A collective call."""
        if self.alone:
            return np.tile(numbers, (self.course.world, 1))
        ranks = np.zeros((self.course.world, len(numbers)))
        ranks[self.course.rank] = numbers
        return self.engine.sum(ranks)

    def _gather_texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, cut to NAME_BYTES. A collective call."""
        encoded = np.frombuffer(text.encode()[:NAME_BYTES].ljust(NAME_BYTES, b"\0"), np.uint8).astype(np.float64)
        return [bytes(row.astype(np.uint8)).rstrip(b"\0").decode() for row in self._gather(encoded)]

    def _say(self, line: str, end: str = "\n") -> None:
        if self.course.rank == 0:
            print(line, end=end, file=sys.stdout, flush=True)

    def _write(self, changes: dict[str, object]) -> None:
        self.results = self.results.model_copy(update=changes)
        if self.course.rank == 0:
            self.results.write(self.directory / "results.json")


def _scores(sums: np.ndarray) -> Scores:
    """Return means; ends the program if the loss is not a number."""
    loss, top1, top5, images = sums.tolist()
    if not np.isfinite(loss):
        sys.exit(f"the loss is {loss}: use a smaller --learning-rate")
    return Scores(loss=loss / images, top1=top1 / images, top5=top5 / images, images=int(images))
