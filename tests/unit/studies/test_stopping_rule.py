"""When a study has measured enough: limits of rounds, width of intervals, rounds without a measurement."""

import math
import random
from collections.abc import Callable

import pytest

from orchestrator.schema.studies import Launch
from orchestrator.studies import confidence_intervals, stopping_rule
from orchestrator.studies.confidence_intervals import Estimate, Interval
from orchestrator.studies.contestants import contestants
from orchestrator.studies.launch_schedule import Planned
from orchestrator.studies.study_definition import Study
from tests.unit.studies.studies import cells, launch, study

ALL, NOISY = [(1, False), (2, False), (1, True)], {0: 100.0, 1: 200.0}
WIDTH = {"width": 0.05, "at_least": 6, "at_most": 9}


def rounds(of: Study, number: int, images: Callable[[Planned], float | None]) -> list[Launch]:
    """Return the launches of complete rounds."""
    planned = [Planned(each, count) for count in range(number) for each in contestants(of, cells(of))]
    return [launch(each, images(each)) for each in planned]


def needed(of: Study, number: int, launches: list[Launch], *lost: int) -> list[tuple[int, bool]]:
    """Return ranks of the contestants that a round launches, and whether they are the second of the A/A pair.

    Cells of ``lost`` ranks are given up.
    """
    every = cells(of)
    keys = [cell.key for cell in every if cell.ranks in lost]
    active = stopping_rule.needed(of, contestants(of, every), every, launches, number, keys)
    return [(each.cell.ranks, each.again) for each in active]


def noisy_with(ranks: int, again: bool = False) -> Callable[[Planned], float]:
    """Return images per second that change between rounds for one contestant, and are constant for the others."""

    def images(planned: Planned) -> float:
        same = (planned.contestant.cell.ranks, planned.contestant.again) == (ranks, again)
        return NOISY[planned.round % 2] if same else 100.0

    return images


@pytest.mark.parametrize("number", range(6))
def test_first_rounds_launch_every_contestant_whatever_they_measure(number: int) -> None:
    of = study(repetitions=WIDTH)
    assert needed(of, number, rounds(of, number, lambda _: 100.0)) == ALL


def test_fixed_number_of_repetitions_ends_without_a_look_at_intervals() -> None:
    of = study(repetitions=7)
    assert needed(of, 6, rounds(of, 6, lambda _: 100.0)) == ALL
    assert needed(of, 7, rounds(of, 7, noisy_with(2))) == []


def test_equal_measurements_have_an_interval_without_width_and_are_enough() -> None:
    of = study(repetitions=WIDTH)
    assert needed(of, 6, rounds(of, 6, lambda _: 100.0)) == []


@pytest.mark.parametrize(("ranks", "again", "expected"), [
    (2, False, [(1, False), (2, False)]),
    (1, True, [(1, False), (1, True)]),
    (1, False, ALL),  # the ratios of both others are to this one
])  # fmt: skip
def test_wide_ratio_is_launched_again_with_its_base_case(
    ranks: int, again: bool, expected: list[tuple[int, bool]]
) -> None:
    of = study(repetitions=WIDTH)
    assert needed(of, 6, rounds(of, 6, noisy_with(ranks, again))) == expected


@pytest.mark.parametrize("lost", [2, 1])
def test_given_up_cell_or_base_case_is_not_measured_further(lost: int) -> None:
    """Neither the cell nor its base case can make the interval narrow."""
    of = study(repetitions=WIDTH)
    assert needed(of, 6, rounds(of, 6, noisy_with(2)), lost) == []
    assert needed(of, 3, rounds(of, 3, noisy_with(2)), lost) == [each for each in ALL if each[0] != lost]


def test_wide_pair_of_a_study_without_base_case_is_launched_again_together() -> None:
    of = study(repetitions=WIDTH, ranks=[1, 2], base={"ranks": 1}, exclude=[{"ranks": 1}])
    assert needed(of, 6, rounds(of, 6, noisy_with(2, again=True))) == [(2, False), (2, True)]


def test_wide_ratio_of_engines_of_one_size_is_launched_again_with_the_first() -> None:
    of = study(repetitions=WIDTH, engines=["ours", "torch-ddp", "ray-torch"], ranks=[2])
    every = cells(of)
    launches = rounds(of, 6, lambda p: NOISY[p.round % 2] if p.contestant.cell.engine == "ray-torch" else 100.0)
    again = stopping_rule.needed(of, contestants(of, every), every, launches, 6)
    assert [each.cell.engine for each in again] == ["ours", "ray-torch"]


def test_no_round_follows_at_most_however_wide_intervals_are() -> None:
    of = study(repetitions=WIDTH)
    assert needed(of, 8, rounds(of, 8, noisy_with(2))) != []
    assert needed(of, 9, rounds(of, 9, noisy_with(2))) == []


@pytest.mark.parametrize("failed", [1, 2])
def test_round_without_cell_or_base_case_counts_for_no_interval(failed: int) -> None:
    """Six rounds with one failure are five pairs, and these have no interval."""
    of = study(repetitions=WIDTH)
    launches = rounds(of, 6, lambda p: None if (p.round, p.contestant.cell.ranks) == (3, failed) else 100.0)
    assert (2, False) in needed(of, 6, launches)


def test_launches_of_the_round_itself_do_not_count() -> None:
    of = study(repetitions=WIDTH)
    before, of_the_round = rounds(of, 6, noisy_with(2)), rounds(of, 7, lambda _: 100.0)[-3:]
    assert needed(of, 6, [*before, *of_the_round]) == needed(of, 6, before)


@pytest.mark.parametrize(
    ("interval", "narrow"), [(None, False), (Interval(2, 2), True), (Interval(1.9, 2.1), True), (Interval(1, 3), False)]
)
def test_width_is_a_share_of_the_value(interval: Interval | None, narrow: bool) -> None:
    assert stopping_rule.is_narrow(Estimate(2.0, interval, 6), width=0.101) is narrow
    assert stopping_rule.is_narrow(None, width=0.101) is False


def test_interval_of_the_last_round_covers_the_truth_nine_times_of_ten() -> None:
    """Looking at the interval after each round costs a little: with a fixed number of rounds it is 95 %."""
    source, covered, studies = random.Random(30), 0, 600  # noqa: S311
    for _ in range(studies):
        cell, base = dict[int, float](), dict[int, float]()
        while len(cell) < 30 and not stopping_rule.is_narrow(confidence_intervals.ratio(cell, base), width=0.03):
            for each, speed in ((cell, 1.7), (base, 1.0)):
                each[len(each)] = speed * math.exp(source.gauss(0.0, 0.02))
        covered += confidence_intervals.holds(confidence_intervals.ratio(cell, base), 1.7) is True
    assert covered / studies > 0.9
