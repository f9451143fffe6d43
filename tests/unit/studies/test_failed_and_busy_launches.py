"""Launches that are repeated in their round, and cells that are given up."""

import pytest

from orchestrator.schema.studies import Launch
from orchestrator.studies import failed_and_busy_launches
from orchestrator.studies.contestants import contestants
from orchestrator.studies.launch_schedule import Planned
from tests.unit.studies.studies import cells, launch, study


def tries(*results: float | None, number: int = 0) -> list[Launch]:
    """Return the launches of a contestant in a round: the share of CPU that others used, None if it failed."""
    of = study()
    planned = Planned(contestants(of, cells(of))[0], number)
    return [launch(planned, None) if busy is None else launch(planned, busy=busy) for busy in results]


@pytest.mark.parametrize(
    ("results", "repeats", "expected"),
    [
        ([0.0], 1, False),
        ([0.1], 1, False),  # no more than busy_above
        ([0.11], 1, True),
        ([0.11], 0, False),
        ([0.5, 0.5], 1, False),
        ([0.5, 0.5], 2, True),
        ([0.5, 0.0], 2, False),
        ([None], 1, True),
        ([None, None], 1, False),
        ([None, 0.5], 1, True),  # a launch that failed is no repeat of a busy one
        ([0.5, None], 1, True),
    ],
)
def test_launch_is_repeated_after_a_failure_or_on_a_busy_machine(
    results: list[float | None], repeats: int, expected: bool
) -> None:
    launches = tries(*results)
    assert failed_and_busy_launches.is_repeated(study(busy_repeats=repeats), launches, launches) is expected


@pytest.mark.parametrize(("results", "lost"), [([None], False), ([None, None], True), ([None, None, 0.0], False)])
def test_cell_is_given_up_after_two_failures_of_a_round(results: list[float | None], lost: bool) -> None:
    assert bool(failed_and_busy_launches.given_up(tries(*results))) is lost


def test_failures_of_two_rounds_do_not_add_up() -> None:
    assert failed_and_busy_launches.given_up([*tries(None, 0.0), *tries(None, number=1)]) == {}


def test_cell_is_tried_again_after_the_study_was_resumed() -> None:
    launches = tries(None, None)
    assert list(failed_and_busy_launches.given_up(launches, resumed=1).values()) == ["rank 0 raised an error"]
    assert failed_and_busy_launches.given_up(launches, resumed=2) == {}
