"""Batches of a data set, and by name the samples that cannot be read: they end it, or it goes on without them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from orchestrator.trainer.data.found import DataError

NAMED = 5
Make = Callable[[np.ndarray], tf.data.Dataset]
Skipped = Callable[[str, str], None]


@dataclass
class Readable:
    """Which samples of a split can be read, as far as is known.

    ``one`` gives what TensorFlow makes of one sample, or raises where it cannot; ``name`` says which file it is.
    """

    one: Make
    name: Callable[[int], str]
    damaged: set[int] = field(default_factory=set)

    def look(self, suspects: np.ndarray) -> dict[int, str]:
        """What is wrong with each of these that cannot be read."""
        reasons = {int(index): self._fault(int(index)) for index in suspects}
        return {index: reason for index, reason in reasons.items() if reason}

    def _fault(self, index: int) -> "str | None":
        try:
            list(self.one(np.array([index])))
        except tf.errors.OpError as error:
            return reason_of(error)
        return None

    def without(self, indices: np.ndarray, batch: int, whole: bool) -> np.ndarray:
        """Without what is damaged: left out, or where batches are to stay ``whole``, replaced.

        The first sample of its batch that can be read takes its place. So it depends on the batch alone, and is the
        same where a run goes on within an epoch. A batch of nothing but damaged samples stays as it is.
        """
        bad = np.isin(indices, list(self.damaged))
        if not whole:
            return indices[~bad]
        parts = zip(_parts(indices, batch), _parts(bad, batch), strict=True)
        replaced = [np.where(b, part[int(np.argmin(b))], part) for part, b in parts] if bad.any() else [indices]
        return np.concatenate(replaced)


def _parts(values: np.ndarray, size: int) -> list[np.ndarray]:
    return [values[first : first + size] for first in range(0, len(values), size)]


@dataclass(frozen=True)
class Batches:
    """``make`` gives the samples that it is given, ``batch`` at a time, here ``indices``.

    Where it fails, the samples of that batch are made one by one. ``skipped`` is told the name of each that cannot be
    read, and what is wrong, and it goes on without (:meth:`Readable.without`); where nobody is to be told, they are the
    end.
    """

    make: Make
    indices: np.ndarray
    batch: int
    readable: Readable
    whole: bool
    skipped: "Skipped | None" = None

    def __iter__(self) -> Iterator[Any]:
        """Raises DataError, which names the files, where a sample cannot be read or decoded."""
        todo = self._usable(self.indices)
        while True:
            done = 0
            try:
                for batch in self.make(todo):
                    yield batch
                    done += 1
                return
            except tf.errors.OpError as error:
                rest = todo[done * self.batch :]
                self._judge(rest[: self.batch], error)
                todo = self._usable(rest)

    def _usable(self, indices: np.ndarray) -> np.ndarray:
        return self.readable.without(indices, self.batch, self.whole)

    def _judge(self, suspects: np.ndarray, error: tf.errors.OpError) -> None:
        """Raises DataError where these are the end; else they are named and known from now on."""
        found = self.readable.look(np.unique(suspects))
        if self.skipped is None or not found or (self.whole and len(found) == len(np.unique(suspects))):
            raise DataError(self._describe(found, len(suspects)) if found else reason_of(error)) from None
        for index, reason in found.items():
            self.readable.damaged.add(index)
            self.skipped(self.readable.name(index), reason)

    def _describe(self, found: dict[int, str], suspects: int) -> str:
        named = "; ".join(f"{self.readable.name(index)}: {reason}" for index, reason in list(found.items())[:NAMED])
        remedy = "; --on-damage skip goes on without" if self.skipped is None else ""
        return f"{len(found)} of {suspects} samples cannot be read: {named}{remedy}"


def reason_of(error: tf.errors.OpError) -> str:
    """What TensorFlow says, in one line and without the names of its nodes."""
    return str(error.message).rpartition("}} ")[2].partition("\n")[0].partition(" [Op:")[0]
