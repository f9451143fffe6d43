"""Reasons to end training before its last epoch, and due checkpoints, on which all ranks agree after the same step.

The wishes of each rank travel with a call's own allreduces (``allreduce.total``), so agreement costs nothing. A rank
wishes to end when it receives SIGTERM, as a node that is being taken away sends it. Rank 0 also checks the clock, and
the file ``stop`` in the run's directory, which the supervisor writes.
"""

import math
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.supervision.processes import STOP

LOOK_SECONDS = 1.0  # between two checks for the file
MARGIN = 1.5  # factor on the longest measured duration
CALL = 0.05  # target duration in seconds of a call of several steps
SETTLED = 10  # calls of one step that are measured first
MOST_STEPS = 256  # per call
WRITING = 50e6  # assumed bytes/s of a checkpoint until one was written


class Wishes(NamedTuple):
    """Wishes after a call, summed over ranks.

    Attributes:
        terminate: Ranks that wish to end.
        time_up: Whether the time limit is reached.
        checkpoint: Whether a checkpoint is due.
        steps: Steps of the next call.
    """

    terminate: int
    time_up: int
    checkpoint: int
    steps: int = 1


class Watch:
    """Wishes of this rank, and the longest durations that were measured on it."""

    def __init__(self, directory: Path, trainer: Trainer) -> None:
        self.directory, self.trainer = directory, trainer
        self._terminate = False
        self._looked = self._mark = self.saved = time.monotonic()
        self._longest: dict[str, float] = {}
        self._measured, self._steps = list[float](), 1
        signal.signal(signal.SIGTERM, self._on_termination)

    def _on_termination(self, number: int, frame: object) -> None:
        self._terminate = True

    def agree(self, steps: "int | None" = None) -> Wishes:
        """Return the wishes of all ranks, between two steps."""
        return agreed(allreduce.total(self.wishes(steps)))

    def wishes(self, steps: "int | None" = None) -> tf.Tensor:
        """Return this rank's current :class:`Wishes`, int32 (4)."""
        if hvd.rank() == 0:
            self._look()
            up, due = not self._room_for_more(), self._due()
            return tf.constant([self._terminate, up, due, steps or self._steps], tf.int32)
        return tf.constant([self._terminate, 0, 0, 0], tf.int32)

    def _look(self) -> None:
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            self._terminate |= (self.directory / STOP).exists()

    def _due(self) -> bool:
        every = self.trainer.config.checkpoint_every
        return every is not None and time.monotonic() - self.saved >= every

    def _room_for_more(self) -> bool:
        """Check that there is time for the coming call, one more, a checkpoint and an evaluation."""
        return self.room("call", "call", "checkpoint", "evaluation")

    def room(self, *parts: str) -> bool:
        """Check that ``parts`` fit before the time limit, which counts from the start of the rank's program."""
        limit = self.trainer.config.max_time
        return limit is None or _age() + MARGIN * sum(map(self._expected, parts)) < limit

    def room_for_all(self, part: str) -> bool:
        """Return rank 0's answer for ``part`` on every rank."""
        missing = hvd.rank() == 0 and not self.room(part)
        return not int(allreduce.total(tf.constant(missing, tf.int32)))

    def _expected(self, part: str) -> float:
        """Return the longest measured duration in seconds, or a safe assumption until one is measured."""
        if part in self._longest:
            return self._longest[part]
        tracing = self._longest.get("first", 0.0)
        if part == "evaluation":  # its steps do less than those of training, after a trace of their own
            batches = math.ceil(self.trainer.test_split.size / (hvd.size() * self.trainer.part))
            return tracing + batches * self._longest.get("step", 0.0)  # excludes the first, which traces
        return _bytes(self.trainer) / WRITING if part == "checkpoint" else tracing

    @contextmanager
    def measured(self, part: str) -> Iterator[None]:
        """Measure a checkpoint or an evaluation."""
        begun = time.monotonic()
        yield
        self._took(part, time.monotonic() - begun)
        self.begin()

    def begin(self) -> None:
        """Mark the beginning of the next call."""
        self._mark = time.monotonic()

    def stepped(self, steps: int) -> None:
        """Record the end of a call of ``steps`` steps; the first one, which traces, is recorded apart."""
        seconds, self._mark = time.monotonic() - self._mark, time.monotonic()
        if self.trainer.step == self.trainer.first + 1:
            return self._took("first", seconds)
        self._took("call", seconds)
        self._took("step", seconds / steps)
        self._choose(seconds)

    def _choose(self, seconds: float) -> None:
        """Choose the number of steps per call after SETTLED calls of one step, so that a call takes about CALL seconds.

        With short steps, the overhead of a call then counts for little, and wishes are still seen soon. Only for data
        in memory: a sample that cannot be read is searched for in its own batch.
        """
        self._measured.append(seconds)
        if len(self._measured) == SETTLED and self.trainer.train_split.in_memory:
            self._steps = max(1, min(MOST_STEPS, int(CALL / statistics.median(self._measured))))

    def _took(self, part: str, seconds: float) -> None:
        self._longest[part] = max(seconds, self._longest.get(part, 0.0))


def agreed(total: tf.Tensor) -> Wishes:
    return Wishes(*total.numpy().tolist())


def reason(trainer: Trainer, wishes: Wishes) -> "str | None":
    """Return why to stop now, the same on every rank; None to continue."""
    return steps(trainer) or ("terminated" if wishes.terminate else "max-time" if wishes.time_up else None)


def steps(trainer: Trainer) -> "str | None":
    """Return "steps" if all requested steps are done, else None; with fewer ranks than before, more may be done."""
    return "steps" if trainer.config.steps is not None and trainer.step >= trainer.config.steps else None


def _bytes(trainer: Trainer) -> int:
    """Estimate the size of a checkpoint in bytes."""
    return sum(4 * math.prod(v.shape) for v in [*trainer.model.variables, *trainer.optimizer.variables])


def _age() -> float:
    """Return the seconds since this process started (proc_pid_stat(5): field 22, in clock ticks since boot)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
