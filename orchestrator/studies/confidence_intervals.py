"""Medians and ratios of launches with 95 % intervals, after Hoefler and Belli, SC'15.

The unit is one launch. No distribution is assumed, and nothing is drawn at random: the same launches always give the
same interval, and a / b has the reciprocal of the interval of b / a.

==========  ==================================================================================================
median      between order statistics; covers the median of any distribution at least 95 % of the time
ratio       of measurements of the same rounds: median of the ratios, never a ratio of means or a mean of ratios.
            Its interval comes from the bootstrap of the logarithms. Efron (1979) gave the distribution of the
            median of resamples in closed form, so there are none to draw. The percentiles are Hesterberg's (2015)
            for small samples: at 6 to 30 launches the interval then holds the ratio 95 to 99 % of the time, while
            plain percentiles do so 87 to 97 % (``tests/unit/studies/test_confidence_intervals.py`` simulates it)
==========  ==================================================================================================

Below 6 launches there is no interval: even the whole range of 5 holds the median only 94 % of the time.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from math import comb
from typing import NamedTuple

LEVEL = 0.95
FEWEST = 6  # launches: 1 - 2 * 0.5**6 is the first that reaches LEVEL


class Interval(NamedTuple):
    """Range that holds the true value with probability :data:`LEVEL`."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        """Return whether the range holds the value."""
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def scaled(self, factor: float) -> "Interval":
        """Return the interval of the value times a positive constant."""
        return Interval(self.low * factor, self.high * factor)


class Estimate(NamedTuple):
    """Value with its interval. ``interval`` is None if fewer than :data:`FEWEST` launches stand behind it."""

    value: float
    interval: Interval | None
    n: int

    @property
    def width(self) -> float | None:
        """Return the width of the interval as a share of the value: 0.02 is about ± 1 %."""
        return (self.interval.high - self.interval.low) / self.value if self.interval and self.value else None

    def scaled(self, factor: float) -> "Estimate":
        """Return the estimate of the value times a positive constant."""
        return Estimate(self.value * factor, self.interval and self.interval.scaled(factor), self.n)

    def reciprocal(self) -> "Estimate":
        """Return the estimate of 1 / value, of positive values."""
        ends = self.interval and Interval(1 / self.interval.high, 1 / self.interval.low)
        return Estimate(1 / self.value, ends, self.n)


def median(values: Sequence[float]) -> Estimate | None:
    """Return the median with an interval between order statistics; None without values.

    The interval leaves out as many values at each end as the binomial distribution allows at :data:`LEVEL`.
    """
    if not values:
        return None
    ordered, n = sorted(values), len(values)
    if n < FEWEST:
        return Estimate(statistics.median(ordered), None, n)
    left_out, outside = 0, 1
    while 2 * (outside + comb(n, left_out + 1)) <= (1 - LEVEL) * 2**n:
        left_out += 1
        outside += comb(n, left_out)
    return Estimate(statistics.median(ordered), Interval(ordered[left_out], ordered[n - 1 - left_out]), n)


def ratio(measured: Mapping[int, float], base: Mapping[int, float]) -> Estimate | None:
    """Return the median of the paired ratios with its interval; None if no round measured both.

    Args:
        measured: Positive measurement of each round, by the round's number.
        base: The same of the base case.
    """
    rounds = measured.keys() & base.keys()
    logs = sorted(math.log(measured[number] / base[number]) for number in rounds)
    if not logs:
        return None
    value = math.exp(statistics.median(logs))
    if len(logs) < FEWEST:
        return Estimate(value, None, len(logs))
    low, high = _bootstrap_interval(logs)
    return Estimate(value, Interval(math.exp(low), math.exp(high)), len(logs))


def speed_up(measured: Mapping[int, float], base: Mapping[int, float], base_ranks: int = 1) -> Estimate | None:
    """Return how many single ranks the cell is worth, by images/s of the same rounds.

    Args:
        measured: Images per second of each round.
        base: The same of the base case: the cell with the fewest ranks.
        base_ranks: Ranks of the base case, which count as that many single ranks.
    """
    estimate = ratio(measured, base)
    return estimate and estimate.scaled(base_ranks)


def efficiency(
    measured: Mapping[int, float], base: Mapping[int, float], ranks: int, base_ranks: int = 1
) -> Estimate | None:
    """Return the speed-up per rank; 1 is ideal. Parameters as of :func:`speed_up`, and the cell's ranks."""
    estimate = speed_up(measured, base, base_ranks)
    return estimate and estimate.scaled(1 / ranks)


def holds(estimate: Estimate | None, value: float = 1.0) -> bool | None:
    """Return whether the interval holds the value; None if there is no interval. For an A/A pair the value is 1."""
    return value in estimate.interval if estimate and estimate.interval else None


def _bootstrap_interval(ordered: Sequence[float]) -> Interval:
    """Return the bootstrap interval of the median of at least two sorted values."""
    mirrored = [-value for value in reversed(ordered)]
    return Interval(_percentile(ordered), -_percentile(mirrored))


def _percentile(ordered: Sequence[float]) -> float:
    """Return the smallest median of resamples up to which their distribution exceeds the lower tail."""
    n = len(ordered)
    medians = sorted(((ordered[low] + ordered[high]) / 2, weight) for low, high, weight in _resampled_medians(n))
    below, tail = 0.0, _tail(n)
    for value, probability in medians:
        below += probability
        if below > tail:
            return value
    return medians[-1][0]


@cache
def _tail(n: int) -> float:
    """Return the share of resamples below the interval: Hesterberg's, which is less than 2.5 % for small n."""
    quantile = _student_quantile((1 + LEVEL) / 2, n - 1)
    return statistics.NormalDist().cdf(-math.sqrt(n / (n - 1)) * quantile)


@lru_cache(maxsize=8)  # large n have hundreds of thousands of pairs
def _resampled_medians(n: int) -> list[tuple[int, int, float]]:
    """Return which of n sorted values can be the middle two of a resample (the same one twice), and how probably."""
    middle = (n + 1) // 2
    up_to = [_at_least(middle, n, number / n) for number in range(n + 1)]
    weights = []
    for lower in range(n):
        pairs = [] if n % 2 else [(lower, upper, _halves(lower, upper, n)) for upper in range(lower + 1, n)]
        both = up_to[lower + 1] - up_to[lower] - math.fsum(weight for *_, weight in pairs)
        weights += [(lower, lower, max(0.0, both)), *pairs]
    return weights


def _at_least(least: int, n: int, share: float) -> float:
    """Return the probability of at least ``least`` of n draws that have the probability ``share`` each."""
    return math.fsum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(least, n + 1))


def _halves(lower: int, upper: int, n: int) -> float:
    """Return the probability that a resample's middle two are the values number ``lower`` < ``upper``, from 0."""
    half = n // 2
    below = ((lower + 1) / n) ** half - (lower / n) ** half
    above = ((n - upper) / n) ** half - ((n - upper - 1) / n) ** half
    return comb(n, half) * below * above


def _student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile (above the median) of Student's distribution by bisection."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _student(middle, freedom) < probability else (low, middle)
    return high


def _student(value: float, freedom: int) -> float:
    """Return Student's cumulative distribution: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = (cosine if freedom > 1 else 0.0) if odd else 1.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    return 0.5 + ((angle + sine * total) / math.pi if odd else sine * total / 2)
