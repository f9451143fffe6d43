"""Times of the steps of an epoch, split into input, computation and communication."""

import operator
import statistics
from typing import NamedTuple

import numpy as np

from orchestrator.schema import StepTimes


class Exchange(NamedTuple):
    """Seconds of a rank's exchange of gradients: while it still computed some, and while it waited for the rest."""

    hidden: float = 0.0
    waited: float = 0.0


class EpochTimes:
    """Times of an epoch's steps so far. ``counted`` is the number of those that were split: all but the run's first."""

    def __init__(self) -> None:
        self._sum, self._exchange, self.counted = StepTimes(), Exchange(), 0
        self._steps: list[float] = []

    def add(self, parts: StepTimes, exchange: Exchange, steps: int) -> None:
        """Add a call of several ``steps``, each of which counts as their mean."""
        self._sum = StepTimes(*map(operator.add, self._sum, parts))
        self._exchange = Exchange(*map(operator.add, self._exchange, exchange))
        self.counted += steps
        self._steps += [sum(parts) / steps] * steps

    @property
    def mean(self) -> "StepTimes | None":
        """Mean times of the steps; None before the first step that counts."""
        return StepTimes(*(seconds / self.counted for seconds in self._sum)) if self.counted else None

    @property
    def hidden_share(self) -> float | None:
        """Share (0 to 1) of the exchange that took place while gradients were computed; None without an exchange."""
        whole = sum(self._exchange)
        return self._exchange.hidden / whole if whole > 0 else None

    @property
    def median(self) -> float | None:
        """Median seconds of the steps; None before the first step that counts."""
        return statistics.median(self._steps) if self._steps else None


def exchange(times: np.ndarray) -> Exchange:
    """Measure the exchange of groups of gradients, which is under way while at least one group is.

    Args:
        times: Seconds at which a rank had each group of its gradients, and at which it had their means: (steps, 2,
            groups).

    Returns:
        Sums over the steps; the rank computes until it has the last group.
    """
    order = np.argsort(times[:, 0], axis=1)
    begins, ends = (np.take_along_axis(column, order, axis=1) for column in (times[:, 0], times[:, 1]))
    computed, last = begins[:, -1:], np.maximum.accumulate(ends, axis=1)
    # A group counts from the end of those that began before it.
    since = np.maximum(begins, np.concatenate([begins[:, :1], last[:, :-1]], axis=1))
    hidden = np.maximum(0.0, np.minimum(ends, computed) - since)
    return Exchange(float(hidden.sum()), float((last[:, -1:] - computed).sum()))


def split_step(whole: float, blocked: float, communication: float) -> StepTimes:
    """Split a step into parts that add up to it.

    Args:
        whole: Seconds of the step.
        blocked: Seconds blocked on input.
        communication: Seconds of waiting for other ranks.

    Returns:
        Seconds of input, computation (the rest) and communication.
    """
    waited = min(max(blocked, 0.0), whole)
    communicated = min(max(communication, 0.0), whole - waited)  # by a clock that people may set
    return StepTimes(waited, whole - waited - communicated, communicated)
