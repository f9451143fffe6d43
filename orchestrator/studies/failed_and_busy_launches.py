"""Rule of repeats: which launches are made again in their round, and which cells are given up.

A launch that fails is made again until it has failed :data:`TRIES` times in its round; then its cell is given up. A
launch on a machine of which other programs used more than ``busy_above`` is made again up to ``busy_repeats`` times.
:func:`orchestrator.studies.round_ratios.counting` chooses the one of them that counts.
"""

from collections.abc import Sequence

from orchestrator.schema.studies import Launch
from orchestrator.studies.study_definition import Study

TRIES = 2  # of a launch that fails


def is_repeated(study: Study, tries: Sequence[Launch], launches: Sequence[Launch], resumed: int = 0) -> bool:
    """Tell whether a contestant is launched again in a round.

    Args:
        study: The study as it is measured.
        tries: Its launches in this round, at least one.
        launches: All launches so far.
        resumed: As of :func:`given_up`.
    """
    last = tries[-1]
    if last.problem:
        return last.key not in given_up(launches, resumed)
    measured = sum(not launch.problem for launch in tries)
    return last.busy > study.busy_above and measured <= study.busy_repeats


def given_up(launches: Sequence[Launch], resumed: int = 0) -> dict[str, str]:
    """Return the problems of cells that are not launched any more, by key.

    Args:
        launches: All launches so far.
        resumed: How many of them were made before the study was resumed. Cells that these gave up are tried again.
    """
    failed: dict[tuple[str, bool, int], list[int]] = {}
    for number, launch in enumerate(launches):
        tries = failed.setdefault((launch.key, launch.again, launch.round), [])
        tries[:] = [*tries, number] if launch.problem else []
    last = {key: tries[-1] for (key, *_), tries in failed.items() if len(tries) >= TRIES}
    return {key: launches[number].problem or "" for key, number in last.items() if number >= resumed}
