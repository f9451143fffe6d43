"""Links from measured messages."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.prediction import link_fit
from orchestrator.prediction.allreduce_time import COPY, Link
from orchestrator.prediction.link_fit import Point

SIZES = [4 * 16**exponent for exponent in range(7)]  # of orchestrator check


def points(link: Link, *ranks: int, noise: float = 0.0) -> list[Point]:
    """Return the measurements of a check over ``link``."""
    generator = random.Random(1)  # noqa: S311
    return [
        Point(n, size, link.allreduce(size, n) * (1 + noise * generator.uniform(-1, 1)))
        for n in ranks
        for size in SIZES
    ]


@given(st.floats(1e-5, 1e-2), st.floats(1e-10, 1e-7), st.floats(1e-10, 1e-7), st.integers(2, 16))
def test_fit_finds_the_link_that_was_measured(alpha: float, beta: float, small: float, ranks: int) -> None:
    link = Link(alpha, beta, small)
    fitted = link_fit.link(points(link, ranks), 1e-9)
    for size in SIZES:
        assert fitted.allreduce(size, ranks) == pytest.approx(link.allreduce(size, ranks), rel=0.02, abs=1e-4)


@given(st.lists(st.tuples(st.sampled_from(SIZES), st.floats(1e-6, 10)), min_size=1, max_size=7))
def test_no_measurement_gives_negative_times(measured: list[tuple[int, float]]) -> None:
    fitted = link_fit.link([Point(2, size, seconds) for size, seconds in measured], 1e-9)
    assert min(fitted.alpha, fitted.beta, fitted.beta_small) >= 0


def test_link_of_four_ranks_serves_for_two() -> None:
    link = Link(2e-4, 8e-9, 8e-9)
    fitted = link_fit.link(points(link, 4, noise=0.05), 1e-9)
    assert fitted.allreduce(100e6, 2) == pytest.approx(link.allreduce(100e6, 2), rel=0.1)


def test_load_is_split_into_messages_and_bytes() -> None:
    used = [Point(2, size, 0.01 + size * 1e-8, 0.001 + size * 2e-9) for size in SIZES]
    fitted = link_fit.link(used, 1e-9)
    assert fitted.load_message == pytest.approx(0.001, rel=0.01)
    assert fitted.load == pytest.approx(2e-9, rel=0.01)
    assert fitted.copy == 0.0  # part of the measured load


def test_load_without_measurement_is_the_usual_one() -> None:
    fitted = link_fit.link(points(Link(1e-4, 1e-9, 1e-9), 2), 7e-9)
    assert (fitted.load, fitted.copy) == (7e-9, COPY)


def test_resampled_points_lie_around_the_fit() -> None:
    measured = points(Link(2e-4, 8e-9, 8e-9), 2, noise=0.1)
    fitted = link_fit.link(measured, 1e-9)
    generator = random.Random(1)  # noqa: S311
    speeds = [link_fit.link(link_fit.resampled(measured, fitted, generator), 1e-9).beta for _ in range(50)]
    assert statistics.median(speeds) == pytest.approx(fitted.beta, rel=0.25)
    assert min(speeds) < max(speeds) < 1.6 * min(speeds)
