"""Measurements of a contestant by round: one launch of a round counts, however often it was repeated."""

from collections.abc import Iterable, Sequence

from orchestrator.schema.studies import Launch
from orchestrator.studies import statistics
from orchestrator.studies.statistics import Estimate

Key = tuple[str, bool]  # of a contestant: the key of its cell, and whether it is the second one of the A/A pair


def by_round(launches: Iterable[Launch], key: Key) -> dict[int, float]:
    """Return a contestant's images per second by round; the least ``busy`` of the launches that measured counts."""
    best: dict[int, Launch] = {}
    for launch in launches:
        if (launch.key, launch.again) == key and launch.problem is None:
            before = best.get(launch.round)
            best[launch.round] = launch if before is None or launch.busy <= before.busy else before
    return {number: launch.images_per_second for number, launch in best.items() if launch.images_per_second}


def ratio(launches: Sequence[Launch], key: Key, base: Key) -> Estimate | None:
    """Return the ratio of images per second of two contestants, of the rounds that measured both.

    Args:
        launches: All launches.
        key: Whose ratio it is.
        base: To which.

    Returns:
        The estimate; None if no round measured both.
    """
    return statistics.ratio(by_round(launches, key), by_round(launches, base))
