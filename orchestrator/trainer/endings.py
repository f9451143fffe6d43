"""Why training ends before its last epoch, and when a checkpoint is due: all ranks agree on it, after the same step.

What each rank wishes goes with a call's own allreduces (``reduction.total``), so that agreeing costs nothing. A rank
wishes to end when it gets SIGTERM, as a node that is taken away gives it. Rank 0 also looks at the clock, and for the
file ``stop`` in the run's directory, by which the supervisor asks.
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

from orchestrator.trainer import reduction
from orchestrator.trainer.setup import Trainer
from orchestrator.trainer.supervision.processes import STOP

LOOK_SECONDS = 1.0  # between two looks for the file
MARGIN = 1.5  # of what something took at most, and may take the next time
CALL = 0.05  # seconds that a call of several steps is to take
SETTLED = 10  # calls of one step that are measured before
MOST_STEPS = 256  # in a call
WRITING = 50e6  # bytes/s of a checkpoint, until one was written


class Wishes(NamedTuple):
    """What is to happen after a call: how many ranks wish to end, that time is up, that a checkpoint is due.

    And how many steps the next call is to take.
    """

    terminate: int
    time_up: int
    checkpoint: int
    steps: int = 1


class Watch:
    """What this rank wishes, and how long things take here."""

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
        """What anyone wishes, between two steps."""
        return agreed(reduction.total(self.wishes(steps)))

    def wishes(self, steps: "int | None" = None) -> tf.Tensor:
        """What this rank wishes now, int32: :class:`Wishes`."""
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
        """For the call that begins, for another that could be stopped after, and for what then follows."""
        return self.room("call", "call", "checkpoint", "evaluation")

    def room(self, *parts: str) -> bool:
        """Whether there is time for these before the limit, which counts from the start of the rank's program."""
        limit = self.trainer.config.max_time
        return limit is None or _age() + MARGIN * sum(map(self._expected, parts)) < limit

    def room_for_all(self, part: str) -> bool:
        """What rank 0 says of ``part``, to every rank."""
        missing = hvd.rank() == 0 and not self.room(part)
        return not int(reduction.total(tf.constant(missing, tf.int32)))

    def _expected(self, part: str) -> float:
        """Seconds: the longest that was measured; until one was, what is safe to assume."""
        if part in self._longest:
            return self._longest[part]
        tracing = self._longest.get("first", 0.0)
        if part == "evaluation":  # whose steps do less than those of training, after a trace of their own
            batches = math.ceil(self.trainer.test_split.size / (hvd.size() * self.trainer.part))
            return tracing + batches * self._longest.get("step", 0.0)  # the first one says nothing of the others
        return _bytes(self.trainer) / WRITING if part == "checkpoint" else tracing

    @contextmanager
    def measured(self, part: str) -> Iterator[None]:
        """Around a checkpoint or an evaluation."""
        begun = time.monotonic()
        yield
        self._took(part, time.monotonic() - begun)
        self.begin()

    def begin(self) -> None:
        """The next call begins now."""
        self._mark = time.monotonic()

    def stepped(self, steps: int) -> None:
        """A call of so many steps has ended; the first one, which traces, is not like the others."""
        seconds, self._mark = time.monotonic() - self._mark, time.monotonic()
        if self.trainer.step == self.trainer.first + 1:
            return self._took("first", seconds)
        self._took("call", seconds)
        self._took("step", seconds / steps)
        self._choose(seconds)

    def _choose(self, seconds: float) -> None:
        """How many steps calls take from now on, once so many of one step were measured: where steps are short.

        What surrounds a call then counts for little, and whoever wishes something is heard soon. Only from memory: a
        sample that cannot be read is looked for in its own batch.
        """
        self._measured.append(seconds)
        if len(self._measured) == SETTLED and self.trainer.train_split.in_memory:
            self._steps = max(1, min(MOST_STEPS, int(CALL / statistics.median(self._measured))))

    def _took(self, part: str, seconds: float) -> None:
        self._longest[part] = max(seconds, self._longest.get(part, 0.0))


def agreed(total: tf.Tensor) -> Wishes:
    return Wishes(*total.numpy().tolist())


def reason(trainer: Trainer, wishes: Wishes) -> "str | None":
    """Why to stop now, the same on every rank; None to go on."""
    return steps(trainer) or ("terminated" if wishes.terminate else "max-time" if wishes.time_up else None)


def steps(trainer: Trainer) -> "str | None":
    """Why to stop where all steps are made that were asked for: by fewer ranks than before there may be more."""
    return "steps" if trainer.config.steps is not None and trainer.step >= trainer.config.steps else None


def _bytes(trainer: Trainer) -> int:
    """Of a checkpoint, about."""
    return sum(4 * math.prod(v.shape) for v in [*trainer.model.variables, *trainer.optimizer.variables])


def _age() -> float:
    """Seconds since this process began (proc_pid_stat(5): field 22, in clock ticks since boot)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
