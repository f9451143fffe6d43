"""The 90 % band of a predicted number."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

LOW, HIGH = 0.05, 0.95  # quantiles


class Band(NamedTuple):
    """A predicted number, and the ends of its 90 % band."""

    value: float
    low: float
    high: float

    def of(self, function: Callable[[float], float]) -> "Band":
        """Return the band of a monotone function of the number."""
        low, high = sorted((function(self.low), function(self.high)))
        return Band(function(self.value), low, high)


def around(value: float, drawn: Sequence[float]) -> Band:
    """Return the band of a number whose possible values are ``drawn``."""
    ordered = sorted(drawn)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (LOW, HIGH))
    return Band(value, min(low, value), max(high, value))
