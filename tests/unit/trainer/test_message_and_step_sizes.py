"""Amounts that `check` measures on fast, slow and throttled nodes."""

import math
from collections.abc import Callable

import pytest

from orchestrator.trainer.check import message_and_step_sizes

TARGET = message_and_step_sizes.SECONDS / message_and_step_sizes.STEPS
Seconds = Callable[[float], float]  # of a step by its share of the whole


def simulated(seconds: Seconds) -> tuple[int, float, float]:
    """Return side and seconds of the chosen step, and the seconds of all steps before."""
    spent = []

    def step(side: int) -> float:
        spent.append(seconds(message_and_step_sizes.work(side)))
        return spent[-1]

    return *message_and_step_sizes.grow(step, TARGET), sum(spent)


@pytest.mark.parametrize("seconds", [lambda work: 0.6 * work, lambda work: 0.1 + 1.2 * work, lambda work: 1e-9])
def test_fast_node_measures_the_whole_step(seconds: Seconds) -> None:
    side, _, _ = simulated(seconds)
    assert (side, message_and_step_sizes.work(side), message_and_step_sizes.group_bytes(side)) == (
        message_and_step_sizes.SIDE,
        1.0,
        message_and_step_sizes.GROUP_BYTES,
    )


@pytest.mark.parametrize("whole", [5.0, 30.0, 400.0, 2700.0])
@pytest.mark.parametrize("latency", [0.0, 0.05])
def test_growth_stays_within_the_time(whole: float, latency: float) -> None:
    side, seconds, spent = simulated(lambda work: latency + whole * work)
    assert seconds <= TARGET
    assert spent + seconds <= message_and_step_sizes.SECONDS
    assert message_and_step_sizes.LEAST_SIDE <= side < message_and_step_sizes.SIDE


@pytest.mark.parametrize("quota", [0.02, 0.05, 0.5])
def test_quota_with_a_burst_is_detected(quota: float) -> None:
    """Every 100 ms have a quota of computation, as with `docker update --cpus`; the step takes 0.6 s of a core."""

    def seconds(work: float) -> float:
        computing = 0.6 * work
        return computing + math.floor(computing / (quota * 0.1)) * 0.1 * (1 - quota)

    _, last, spent = simulated(seconds)
    assert spent + last <= message_and_step_sizes.SECONDS


def test_slowest_node_runs_the_smallest_step() -> None:
    assert simulated(lambda _: 60.0) == (message_and_step_sizes.LEAST_SIDE, 60.0, 120.0)


@pytest.mark.parametrize(
    "most", range(message_and_step_sizes.LEAST_SIDE, message_and_step_sizes.SIDE + 1, message_and_step_sizes.LEAST_SIDE)
)
def test_step_is_no_larger_than_the_step_it_is_compared_with(most: int) -> None:
    assert message_and_step_sizes.side(message_and_step_sizes.work(most)) == most
    assert message_and_step_sizes.grow(lambda _: 0.0, TARGET, most)[0] == most


@pytest.mark.parametrize(
    ("latencies", "seconds"),
    [([], 0.0), ([0.1], 0.1), ([0.1, 0.1], 0.1), ([0.1, 0.2], 1.8), ([0.3, 0.2], 0.2), ([1.0, 0.01, 0.17], 2.73)],
)
def test_next_message_is_estimated_from_the_last_increase(latencies: list[float], seconds: float) -> None:
    assert message_and_step_sizes.next_message_seconds(latencies) == pytest.approx(seconds)


@pytest.mark.parametrize(("seconds", "repeats"), [(0.001, 7), (0.1, 5), (0.3, 1), (30.0, 1)])
def test_slow_messages_are_repeated_less(seconds: float, repeats: int) -> None:
    assert message_and_step_sizes.repeats(seconds) == repeats
