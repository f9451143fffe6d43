"""Batches of a data set, and by name the samples that cannot be read where that ends them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from orchestrator.trainer.data.found import DataError

NAMED = 5


@dataclass(frozen=True)
class Batches:
    """``data`` gives the samples ``indices``, ``batch`` at a time.

    Where it fails, the samples of that batch are made one by one: ``make`` raises what TensorFlow raises where one of
    those that it is given cannot be, and ``name`` says which file it is.
    """

    data: tf.data.Dataset
    indices: np.ndarray
    batch: int
    make: Callable[[np.ndarray], object]
    name: Callable[[int], str]

    def __iter__(self) -> Iterator[Any]:
        """Raises DataError, which names the files, where a sample cannot be read or decoded."""
        done = 0
        try:
            for batch in self.data:
                yield batch
                done += 1
        except tf.errors.OpError as error:
            first = done * self.batch
            raise DataError(self._describe(self.indices[first : first + self.batch], error)) from None

    def _describe(self, suspects: np.ndarray, error: tf.errors.OpError) -> str:
        found = {self.name(int(index)): reason for index in suspects if (reason := self._fault(int(index)))}
        named = "; ".join(f"{name}: {reason}" for name, reason in list(found.items())[:NAMED])
        return f"{len(found)} of {len(suspects)} samples cannot be read: {named}" if found else reason_of(error)

    def _fault(self, index: int) -> "str | None":
        try:
            self.make(np.array([index]))
        except tf.errors.OpError as error:
            return reason_of(error)
        return None


def reason_of(error: tf.errors.OpError) -> str:
    """What TensorFlow says, in one line and without the names of its nodes."""
    return str(error.message).rpartition("}} ")[2].partition("\n")[0].partition(" [Op:")[0]
