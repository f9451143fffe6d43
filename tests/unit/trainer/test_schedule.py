"""Learning rate as a function of the step, compared with the papers."""

from itertools import pairwise
from typing import Any

import pytest

from orchestrator.trainer.optim import schedule
from tests import samples

STEPS = 10  # per epoch


def rate(epoch: float, world: int = 1, **changes: object) -> float:
    return schedule.learning_rate(samples.train_config(**changes), world, STEPS, round(epoch * STEPS))


GOYAL = {"epochs": 90, "learning_rate": 0.0125, "warmup_epochs": 5, "milestones": [0.3333, 0.6667, 0.8889]}


def test_peak_grows_with_the_number_of_ranks() -> None:
    config = samples.train_config(learning_rate=0.0125)
    assert [schedule.peak(config, world) for world in (1, 8, 256)] == pytest.approx([0.0125, 0.1, 3.2])


@pytest.mark.parametrize(("most", "batch", "expected"), [(31, 31, 0.155), (64, 64, 0.32), (1000, 64, 0.32)])
def test_rate_follows_a_batch_that_is_reduced(most: int, batch: int, expected: float) -> None:
    config = schedule.with_batch(samples.train_config(batch_size=64, learning_rate=0.32), most)
    assert (config.batch_size, config.learning_rate) == (batch, expected)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, 0.0125), (2.5, 0.05625), (5, 0.1), (29, 0.1), (31, 0.01), (61, 0.001), (81, 0.0001)]
)
def test_schedule_of_goyal_et_al_on_eight_ranks(epoch: float, expected: float) -> None:
    assert rate(epoch, world=8, **GOYAL) == pytest.approx(expected)


def test_warm_up_climbs_in_equal_steps() -> None:
    rates = [rate(step / STEPS, world=8, **GOYAL) for step in range(5 * STEPS + 1)]
    climbs = [after - before for before, after in pairwise(rates)]
    assert climbs == pytest.approx([climbs[0]] * 50)


def test_first_step_without_a_warm_up_has_the_peak() -> None:
    assert rate(0, world=4, learning_rate=0.1, warmup_epochs=0) == pytest.approx(0.4)


def test_single_rank_has_no_warm_up() -> None:
    assert {rate(epoch, world=1, epochs=10, warmup_epochs=5, milestones=[]) for epoch in range(10)} == {0.1}


def test_cosine_falls_from_the_peak_to_zero() -> None:
    rates = [rate(epoch, world=2, epochs=8, schedule="cosine") for epoch in (0, 4, 8)]
    assert rates == pytest.approx([0.2, 0.1, 0.0])


def test_cosine_never_rises() -> None:
    rates = [rate(step / STEPS, world=2, epochs=8, schedule="cosine") for step in range(8 * STEPS + 5)]
    assert rates == sorted(rates, reverse=True)


def test_step_past_the_last_epoch_keeps_the_last_rate() -> None:
    assert rate(99, epochs=8, milestones=[0.5], learning_rate=0.1) == pytest.approx(0.01)


def test_exponential_schedule_decays_in_steps() -> None:
    """Szegedy et al. 2016, section 8: 0.045, times 0.94 every two epochs."""
    paper: dict[str, Any] = {"learning_rate": 0.045, "decay": 0.94, "decay_epochs": 2, "epochs": 100}
    rates = [rate(epoch, schedule="exponential", **paper) for epoch in (0, 1.9, 2, 3.9, 4, 99)]
    assert rates == pytest.approx([0.045 * 0.94**times for times in (0, 0, 1, 1, 2, 49)])


def test_exponential_schedule_counts_warm_up_epochs() -> None:
    settings: dict[str, Any] = {
        "schedule": "exponential",
        "decay": 0.5,
        "decay_epochs": 1,
        "epochs": 9,
        "warmup_epochs": 2,
    }
    assert rate(2, world=4, **settings) == pytest.approx(0.1 * 4 * 0.25)


@pytest.mark.parametrize(("epoch", "expected"), [(0, 0.01), (45, 0.005), (60, 0.0), (61, 0.0)])
def test_polynomial_schedule_is_a_power_of_the_rest(epoch: float, expected: float) -> None:
    """Caffe's "poly" with a power of one half: half of the rate with a quarter of the epochs left."""
    settings: dict[str, Any] = {"schedule": "polynomial", "power": 0.5, "learning_rate": 0.01, "epochs": 60}
    assert rate(epoch, **settings) == pytest.approx(expected)
