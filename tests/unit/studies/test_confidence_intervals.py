"""Medians and ratios of launches: known values, coverage of simulated launches, and symmetry."""

import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from statistics import NormalDist
from statistics import median as middle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.studies import confidence_intervals
from orchestrator.studies.confidence_intervals import Estimate, Interval

Noise = Callable[[random.Random], float]


def gaussian(source: random.Random) -> float:
    return source.gauss(0.0, 0.02)


def delayed(source: random.Random) -> float:
    """Simulate launches disturbed by another program: a long tail on one side."""
    return source.gauss(0.0, 0.01) - (source.expovariate(10) if source.random() < 0.2 else 0.0)


def by_round(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


NOISES = [pytest.param(gaussian, id="gaussian"), pytest.param(delayed, id="delayed")]
MEASURED = st.lists(st.tuples(st.floats(1.0, 1e6), st.floats(1.0, 1e6)), min_size=1, max_size=25)


@pytest.mark.parametrize(("n", "left_out"), [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5), (30, 9)])
def test_median_interval_has_the_ranks_of_the_tables(n: int, left_out: int) -> None:
    """Conover, Practical Nonparametric Statistics, table A3 at p = 1/2."""
    values = [float(number) for number in range(n)]
    assert confidence_intervals.median(values[::-1]) == Estimate(
        middle(values), Interval(left_out, n - 1 - left_out), n
    )


@pytest.mark.parametrize("n", [1, 5])
def test_fewer_than_six_launches_have_no_interval(n: int) -> None:
    values = [float(number + 1) for number in range(n)]
    assert confidence_intervals.median(values) == Estimate(middle(values), None, n)
    ratio = confidence_intervals.ratio(by_round(values), by_round(values))
    assert ratio == Estimate(1.0, None, n)
    assert ratio.width is None
    assert confidence_intervals.holds(ratio) is None


def test_no_measurements_give_no_estimate() -> None:
    assert confidence_intervals.median([]) is None
    assert confidence_intervals.ratio({0: 1.0}, {1: 1.0}) is None
    assert confidence_intervals.speed_up({}, {}) is None
    assert confidence_intervals.holds(None) is None


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 12, 15, 20])
def test_intervals_cover_the_truth_at_least_95_percent_of_the_time(n: int, noise: Noise) -> None:
    """1500 simulated studies; with a coverage of exactly 95 %, fewer than 93.5 % occur once in 200."""
    source = random.Random(n)  # noqa: S311
    studies, ratios, medians = 1500, 0, 0
    truth = middle(noise(source) for _ in range(100_001))
    for _ in range(studies):
        cell, base = ([math.exp(noise(source)) for _ in range(n)] for _ in range(2))
        ratio = confidence_intervals.ratio(by_round([1.7 * value for value in cell]), by_round(base))
        ratios += confidence_intervals.holds(ratio, 1.7) is True
        medians += confidence_intervals.holds(confidence_intervals.median(cell), math.exp(truth)) is True
    assert min(ratios, medians) / studies > 0.935


def test_twenty_aa_studies_contain_one_at_least_eighteen_times() -> None:
    source, enough = random.Random(20), 0  # noqa: S311
    for _ in range(200):
        pairs = [[by_round([math.exp(delayed(source)) for _ in range(8)]) for _ in range(2)] for _ in range(20)]
        enough += sum(confidence_intervals.holds(confidence_intervals.ratio(a, b)) is True for a, b in pairs) >= 18
    assert enough / 200 > 0.95


@pytest.mark.parametrize("n", [5, 6, 7])
def test_distribution_is_that_of_all_resamples(n: int) -> None:
    """Count all resamples of n values, instead of the closed form."""
    values = [2.0**number for number in range(n)]
    counted: Counter[float] = Counter()
    for resample in product(values, repeat=n):
        counted[middle(resample)] += 1
    closed: dict[float, float] = {}
    for low, high, weight in confidence_intervals._resampled_medians(n):
        value = (values[low] + values[high]) / 2
        closed[value] = closed.get(value, 0.0) + weight * n**n
    assert closed == pytest.approx(dict(counted), abs=1e-6)


@given(MEASURED)
def test_exchange_of_the_two_gives_the_reciprocal(pairs: list[tuple[float, float]]) -> None:
    cell, base = by_round([a for a, _ in pairs]), by_round([b for _, b in pairs])
    ratio, reciprocal = confidence_intervals.ratio(cell, base), confidence_intervals.ratio(base, cell)
    assert ratio is not None
    assert reciprocal is not None
    assert ratio.value == pytest.approx(1 / reciprocal.value)
    if ratio.interval and reciprocal.interval:
        assert tuple(ratio.interval) == pytest.approx((1 / reciprocal.interval.high, 1 / reciprocal.interval.low))


@given(MEASURED)
def test_interval_is_around_the_value_and_within_the_ratios(pairs: list[tuple[float, float]]) -> None:
    ratios = [a / b for a, b in pairs]
    estimate = confidence_intervals.ratio(by_round([a for a, _ in pairs]), by_round([b for _, b in pairs]))
    assert estimate is not None
    assert estimate.n == len(pairs)
    if estimate.interval:
        low, high = estimate.interval
        assert min(ratios) * 0.999999 <= low <= estimate.value * 1.000001
        assert estimate.value * 0.999999 <= high <= max(ratios) * 1.000001


def test_only_rounds_that_measured_both_count() -> None:
    """A slower round slows both measurements, and their ratio stays."""
    base = {number: 100.0 / (1 + number) for number in range(8)}
    cell = {number: 150.0 / (1 + number) for number in range(1, 7)} | {99: 1.0}
    estimate = confidence_intervals.ratio(cell, base)
    assert estimate is not None
    assert estimate.n == 6
    assert estimate.value == pytest.approx(1.5)
    assert estimate.width == pytest.approx(0.0)


def test_speed_up_and_efficiency_count_the_ranks_of_the_base_case() -> None:
    base, cell = by_round([200.0] * 6), by_round([300.0] * 6)
    speed_up = confidence_intervals.speed_up(cell, base, base_ranks=2)
    efficiency = confidence_intervals.efficiency(cell, base, ranks=4, base_ranks=2)
    assert speed_up is not None
    assert efficiency is not None
    assert speed_up.value == pytest.approx(3.0)
    assert efficiency.value == pytest.approx(0.75)
    assert efficiency.interval is not None
    assert efficiency.interval.low == pytest.approx(0.75)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (5, 2.5706), (10, 2.2281), (30, 2.0423)])
def test_student_quantile_is_that_of_the_tables(freedom: int, quantile: float) -> None:
    assert confidence_intervals._student_quantile(0.975, freedom) == pytest.approx(quantile, abs=1e-4)
    assert confidence_intervals._student_quantile(0.975, 10_000) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-3)
