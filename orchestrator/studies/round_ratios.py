"""Measurements of a contestant by round: one launch of a round counts, however often it was repeated."""

from collections.abc import Iterable, Sequence

from orchestrator.schema.studies import Launch
from orchestrator.studies import confidence_intervals
from orchestrator.studies.confidence_intervals import Estimate

Key = tuple[str, bool]  # of a contestant: the key of its cell, and whether it is the second one of the A/A pair


def counting(launches: Iterable[Launch]) -> list[Launch]:
    """Return the launches that count: of each contestant and round, the least ``busy`` one that measured."""
    best: dict[tuple[str, bool, int], Launch] = {}
    for launch in launches:
        if launch.problem is None and launch.images_per_second:
            place = (launch.key, launch.again, launch.round)
            best[place] = min(launch, best.get(place, launch), key=lambda each: each.busy)
    return list(best.values())


def by_round(launches: Iterable[Launch], key: Key) -> dict[int, float]:
    """Return a contestant's images per second by round, of the launches that count."""
    some = counting(launch for launch in launches if (launch.key, launch.again) == key)
    return {launch.round: launch.images_per_second for launch in some if launch.images_per_second}


def ratio(launches: Sequence[Launch], key: Key, base: Key) -> Estimate | None:
    """Return the ratio of images per second of two contestants, of the rounds that measured both.

    Args:
        launches: All launches.
        key: Whose ratio it is.
        base: To which.

    Returns:
        The estimate; None if no round measured both.
    """
    return confidence_intervals.ratio(by_round(launches, key), by_round(launches, base))
