"""Times of the steps of an epoch, split into input, computation and communication."""

import operator
import statistics

from orchestrator.schema import StepTimes


class EpochTimes:
    """Times of an epoch's steps so far. ``counted`` is the number of those that were split: all but the run's first."""

    def __init__(self) -> None:
        self._sum, self.counted = StepTimes(), 0
        self._steps: list[float] = []

    def add(self, parts: StepTimes, steps: int) -> None:
        """Add a call of several ``steps``, each of which counts as their mean."""
        self._sum = StepTimes(*map(operator.add, self._sum, parts))
        self.counted += steps
        self._steps += [sum(parts) / steps] * steps

    @property
    def mean(self) -> "StepTimes | None":
        """Mean times of the steps; None before the first step that counts."""
        return StepTimes(*(seconds / self.counted for seconds in self._sum)) if self.counted else None

    @property
    def median(self) -> float | None:
        """Median seconds of the steps; None before the first step that counts."""
        return statistics.median(self._steps) if self._steps else None


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
