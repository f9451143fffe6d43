"""Stopping rule: whether a study has measured enough. Before each round it chooses the contestants of this round.

==============  ==============================================================================================
``at_least``    so many rounds launch every contestant
``width``       a later round launches the contestants whose ratio to the base case still has a 95 % interval
                wider than this share of the ratio, and their base cases: a ratio is of rounds that measured both.
                If there are none, or the study has no ``width``, the study is complete. A cell that is given up,
                and one whose base case is, is not measured further
``at_most``     after so many rounds the study is complete, however wide its intervals are
==============  ==============================================================================================

Ratio and interval are of :mod:`orchestrator.studies.confidence_intervals`, after Hoefler and Belli, SC'15. An interval
that is looked at after each round stops a little too often when it is narrow by chance: with 2 % of noise and a
``width`` of 0.02 to 0.08 it then holds the ratio 92 to 97 % of the time (``tests/unit/studies/test_stopping_rule.py``).

:mod:`orchestrator.studies.failed_and_busy_launches` decides which launches of a round are repeated.
"""

from collections.abc import Collection, Sequence

from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies.confidence_intervals import Estimate
from orchestrator.studies.contestants import Contestant, base_of
from orchestrator.studies.round_ratios import Key, ratio
from orchestrator.studies.study_definition import Study


def needed(
    study: Study,
    everyone: Sequence[Contestant],
    cells: Sequence[Cell],
    launches: Sequence[Launch],
    number: int,
    lost: Collection[str] = (),
) -> list[Contestant]:
    """Return the contestants that a round launches, if the rounds before are complete.

    Args:
        study: The study as it is measured.
        everyone: All contestants.
        cells: All cells.
        launches: All launches so far.
        number: Number of the round, from 0.
        lost: Keys of the cells that are given up.

    Returns:
        Those of ``everyone``, in this order; an empty list if the study has measured enough.
    """
    if number >= study.repetitions.at_most:
        return []
    if number < study.repetitions.at_least:
        return [contestant for contestant in everyone if contestant.key[0] not in lost]
    return wide(study, everyone, cells, [launch for launch in launches if launch.round < number], lost)


def wide(
    study: Study,
    everyone: Sequence[Contestant],
    cells: Sequence[Cell],
    launches: Sequence[Launch],
    lost: Collection[str],
    changing: Collection[Key] = (),
) -> list[Contestant]:
    """Return the contestants whose ratio to the base case has no narrow interval, and their base cases.

    Args:
        study: The study as it is measured.
        everyone: All contestants.
        cells: All cells.
        launches: Launches that the ratios are of.
        lost: Keys of the cells that are given up.
        changing: Keys of contestants whose interval is not final: they are returned even if it is narrow.

    Returns:
        Those of ``everyone``, in this order; an empty list if the study has no ``width``.
    """
    width, keys = study.repetitions.width, set[Key]()
    if width is None:
        return []
    for contestant in everyone:
        base = base_of(study, contestant, cells)
        if not base or {contestant.key[0], base.key[0]} & {*lost}:
            continue
        if contestant.key in changing or not is_narrow(ratio(launches, contestant.key, base.key), width):
            keys |= {contestant.key, base.key}
    return [contestant for contestant in everyone if contestant.key in keys]


def is_narrow(estimate: Estimate | None, width: float) -> bool:
    """Tell whether an estimate has an interval that is at most ``width`` wide, as a share of the value."""
    return bool(estimate and estimate.width is not None and estimate.width <= width)
