"""Reasons to end training before its last epoch, and due checkpoints, on which all ranks agree after the same step.

The votes of each rank travel with a call's own allreduces (``allreduce.allreduce_sum``), so agreement costs nothing. A
rank votes to end when it receives SIGTERM, which a node that shuts down sends. Rank 0 also checks the clock, and the
file ``stop`` in the run's directory, which the supervisor writes.
"""

import math
import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Epoch
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.supervision.leftover_processes import STOP

POLL_SECONDS = 1.0  # between two checks for the file
MARGIN = 1.5  # factor on the longest measured duration
CALL_SECONDS = 0.25  # target duration in seconds of a call of several steps, of which the call itself takes about 2 ms
MEASURED_CALLS = 10  # calls of one step that are measured first
MOST_STEPS = 1024  # per call
CHECKPOINT_BYTES_PER_SECOND = 50e6  # assumed bytes/s of a checkpoint until one was written


class StopVotes(NamedTuple):
    """Votes after a call, summed over ranks.

    Attributes:
        terminate: Ranks that were asked to end.
        time_up: Whether the time limit is reached.
        checkpoint: Whether a checkpoint is due.
        steps: Steps of the next call.
    """

    terminate: int
    time_up: int
    checkpoint: int
    steps: int = 1


class StopControl:
    """StopVotes of this rank, and the longest durations that were measured on it."""

    def __init__(self, directory: Path, trainer: Trainer) -> None:
        self.directory, self.trainer = directory, trainer
        self._terminate = False
        self._last_check = self._call_started = self.last_checkpoint = time.monotonic()
        self._longest: dict[str, float] = {}
        self._call_seconds, self._steps = list[float](), 1
        signal.signal(signal.SIGTERM, self._on_termination)

    def _on_termination(self, number: int, frame: object) -> None:
        self._terminate = True

    def agree(self, steps: "int | None" = None) -> StopVotes:
        """Return the votes of all ranks; a collective call between two steps."""
        return StopVotes(*allreduce.allreduce_sum(self.votes(steps)).numpy().tolist())

    def votes(self, steps: "int | None" = None) -> tf.Tensor:
        """Return this rank's current :class:`StopVotes`, int32 (4)."""
        if hvd.rank() == 0:
            self._check_stop_file()
            # There must be time for the coming call, one more, a checkpoint and an evaluation.
            time_is_up = not self.has_time_for("call", "call", "checkpoint", "evaluation")
            return tf.constant([self._terminate, time_is_up, self._due(), steps or self._steps], tf.int32)
        return tf.constant([self._terminate, 0, 0, 0], tf.int32)

    def _check_stop_file(self) -> None:
        if time.monotonic() - self._last_check >= POLL_SECONDS:
            self._last_check = time.monotonic()
            self._terminate |= (self.directory / STOP).exists()

    def _due(self) -> bool:
        every = self.trainer.config.checkpoint_every
        return every is not None and time.monotonic() - self.last_checkpoint >= every

    def has_time_for(self, *parts: str) -> bool:
        """Check that ``parts`` fit before the time limit, which counts from the start of the rank's program."""
        limit = self.trainer.config.max_time
        return limit is None or _process_age() + MARGIN * sum(map(self._expected_seconds, parts)) < limit

    def ranks_have_time_for(self, part: str) -> bool:
        """Return rank 0's answer for ``part`` on every rank."""
        missing = hvd.rank() == 0 and not self.has_time_for(part)
        return not int(allreduce.allreduce_sum(tf.constant(missing, tf.int32)))

    def _expected_seconds(self, part: str) -> float:
        """Return the longest measured duration in seconds, or a safe assumption until one is measured."""
        if part in self._longest:
            return self._longest[part]
        tracing = self._longest.get("first", 0.0)
        if part == "evaluation":  # its steps do less than those of training, after a trace of their own
            step = self._longest.get("step", 0.0)  # excludes the first, which is longer
            return tracing + self.trainer.test_batches * step
        if part == "checkpoint":
            variables = [*self.trainer.model.variables, *self.trainer.optimizer.variables]
            return sum(4 * math.prod(v.shape) for v in variables) / CHECKPOINT_BYTES_PER_SECOND
        return tracing

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Measure a checkpoint or an evaluation."""
        started = time.monotonic()
        yield
        self._record_longest(part, time.monotonic() - started)
        self.start_call()

    def start_call(self) -> None:
        """Mark the beginning of the next call."""
        self._call_started = time.monotonic()

    def end_call(self, steps: int) -> None:
        """Record the end of a call of ``steps`` steps; the first one, which is longer, is recorded separately."""
        seconds, self._call_started = time.monotonic() - self._call_started, time.monotonic()
        if self.trainer.step == self.trainer.steps_before + 1:
            return self._record_longest("first", seconds)
        self._record_longest("call", seconds)
        self._record_longest("step", seconds / steps)
        self._choose_steps_per_call(seconds)

    def _choose_steps_per_call(self, seconds: float) -> None:
        """Choose the number of steps per call after MEASURED_CALLS calls, so that a call takes about CALL_SECONDS.

        With short steps, the overhead of a call then counts for little, and votes are still counted soon. Only for data
        in memory: a sample that cannot be read is searched for in its own batch.
        """
        self._call_seconds.append(seconds)
        if len(self._call_seconds) == MEASURED_CALLS and self.trainer.train_split.in_memory:
            self._steps = max(1, min(MOST_STEPS, int(CALL_SECONDS / statistics.median(self._call_seconds))))

    def _record_longest(self, part: str, seconds: float) -> None:
        self._longest[part] = max(seconds, self._longest.get(part, 0.0))


def stop_reason(trainer: Trainer, votes: StopVotes) -> "str | None":
    """Return why to stop now, the same on every rank; None to continue."""
    return steps(trainer) or ("terminated" if votes.terminate else "max-time" if votes.time_up else None)


def steps(trainer: Trainer) -> "str | None":
    """Return "steps" if all requested steps are done, else None; with fewer ranks than before, more may be done."""
    return "steps" if trainer.config.steps is not None and trainer.step >= trainer.config.steps else None


def of_resumed_run(trainer: Trainer, epochs: Sequence[Epoch]) -> "str | None":
    """Return why a run that continues after ``epochs`` has nothing to train: it may only write its network."""
    goal = trainer.config.until_top1
    reached = goal is not None and any(epoch.test.top1 >= goal for epoch in epochs)
    return "until" if reached else steps(trainer)


def after_epoch(trainer: Trainer, top1: float) -> "str | None":
    """Return why to stop after a whole epoch whose global test score is ``top1``; None to continue to the last epoch.

    A run that is complete by then was not ended by its time limit, even if that was reached too.
    """
    if trainer.ended not in (None, "max-time"):
        return trainer.ended
    goal = trainer.config.until_top1
    if goal is not None and top1 >= goal:
        return "until"
    return None if trainer.epoch >= trainer.config.epochs else trainer.ended


def _process_age() -> float:
    """Return the seconds since this process started (proc_pid_stat(5): field 22, in clock ticks since boot)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
