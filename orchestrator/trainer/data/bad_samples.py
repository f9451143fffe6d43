"""Batches of a data set that detect unreadable samples by name, and end or continue without them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from orchestrator.trainer.data.inspection import DataError

MAX_NAMED = 5
MakeBatches = Callable[[np.ndarray], Iterable[Any]]
OnSkip = Callable[[str, str], None]


@dataclass
class SampleChecker:
    """Check which samples of a split can be read, and remember those that cannot.

    Attributes:
        load_one: Makes batches of one sample, which raises if the sample cannot be read.
        name: Names the file of a sample.
        damaged: Numbers of the samples known to be unreadable.
    """

    load_one: MakeBatches
    name: Callable[[int], str]
    damaged: set[int] = field(default_factory=set)

    def find_faults(self, suspects: np.ndarray) -> dict[int, str]:
        """Return the fault of each of the ``suspects`` that cannot be read."""
        faults: dict[int, str] = {}
        for index in suspects.tolist():
            try:
                list(self.load_one(np.array([index])))
            except tf.errors.OpError as error:
                if reason := reason_of(error):
                    faults[index] = reason
        return faults

    def exclude_damaged(self, indices: np.ndarray, batch: int, whole: bool) -> np.ndarray:
        """Remove damaged samples, or replace them if batches must stay ``whole``.

        The first readable sample of its batch takes the place of a damaged one. So the replacement depends on the batch
        alone, and is the same if a run resumes within an epoch. A batch with no readable sample stays as it is.

        Args:
            indices: Numbers of samples, int64 (n).
            batch: Samples per batch.
            whole: Replace instead of remove.

        Returns:
            Numbers of samples, int64.
        """
        bad = np.isin(indices, list(self.damaged))
        if not whole or not bad.any():
            return indices[~bad]
        firsts = range(batch, len(indices), batch)
        parts = zip(np.split(indices, firsts), np.split(bad, firsts), strict=True)
        return np.concatenate([np.where(b, part[int(np.argmin(b))], part) for part, b in parts])


@dataclass(frozen=True)
class Batches:
    """Batches of the samples ``indices``, ``batch`` at a time, by ``make``.

    If ``make`` fails, the samples of that batch are tried one by one. With ``on_skip``, which is called with the name
    and the fault of each unreadable sample, the batches continue without them
    (:meth:`SampleChecker.exclude_damaged`); else they end with DataError.
    """

    make: MakeBatches
    indices: np.ndarray
    batch: int
    checker: SampleChecker
    whole: bool
    on_skip: "OnSkip | None" = None

    def __iter__(self) -> Iterator[Any]:
        """Yield batches.

        Raises:
            DataError: A sample cannot be read or decoded; the message names the files.
        """
        remaining = self._usable(self.indices)
        while True:
            done = 0
            try:
                for batch in self.make(remaining):
                    yield batch
                    done += 1
                return
            except tf.errors.OpError as error:
                rest = remaining[done * self.batch :]
                self._handle_error(rest[: self.batch], error)
                remaining = self._usable(rest)

    def _usable(self, indices: np.ndarray) -> np.ndarray:
        return self.checker.exclude_damaged(indices, self.batch, self.whole)

    def _handle_error(self, suspects: np.ndarray, error: tf.errors.OpError) -> None:
        """Raise DataError if unreadable samples end the batches; else report and remember them."""
        faults = self.checker.find_faults(np.unique(suspects))
        if self.on_skip is None or not faults or (self.whole and len(faults) == len(np.unique(suspects))):
            raise DataError(self._describe(faults, len(suspects)) if faults else reason_of(error)) from None
        for index, reason in faults.items():
            self.checker.damaged.add(index)
            self.on_skip(self.checker.name(index), reason)

    def _describe(self, faults: dict[int, str], suspects: int) -> str:
        named = "; ".join(f"{self.checker.name(index)}: {reason}" for index, reason in list(faults.items())[:MAX_NAMED])
        remedy = "; use --on-bad-sample skip to train without them" if self.on_skip is None else ""
        return f"{len(faults)} of {suspects} samples cannot be read: {named}{remedy}"


def reason_of(error: tf.errors.OpError) -> str:
    """Return TensorFlow's message in one line, without the names of its nodes."""
    return str(error.message).rpartition("}} ")[2].partition("\n")[0].partition(" [Op:")[0]
