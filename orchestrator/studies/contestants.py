"""Contestants of a study's rounds: its cells, and the first base case a second time, which makes the A/A pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestrator.schema.studies import Cell
from orchestrator.studies import matrix
from orchestrator.studies.round_ratios import Key
from orchestrator.studies.study_definition import Study


@dataclass(frozen=True)
class Contestant:
    """A cell of every round; ``again`` is the second cell of the A/A pair."""

    cell: Cell
    again: bool = False

    @cached_property
    def key(self) -> Key:
        return self.cell.key, self.again


def contestants(study: Study, cells: Sequence[Cell], nodes: int | None = None) -> list[Contestant]:
    """Return the contestants of the first round, by nodes so that a cluster changes rarely, the A/A pair far apart.

    Args:
        study: The study as it is measured.
        cells: Its cells.
        nodes: Nodes of the cluster. If they are the most that a cell has, the cluster shrinks in the first round.

    Returns:
        Each cell, and the first base case again.
    """
    first = matrix.base_of(study, cells[0], cells) or cells[0]
    everyone = [*map(Contestant, cells), Contestant(first, again=True)]
    shrinks = nodes == max(cell.nodes or 0 for cell in cells)
    return sorted(everyone, key=lambda contestant: contestant.cell.nodes or 0, reverse=shrinks)


def base_of(study: Study, contestant: Contestant, cells: Sequence[Cell]) -> Contestant | None:
    """Return the contestant to which the ratio of another is.

    Args:
        study: The study as it is measured.
        contestant: Whose ratio it is.
        cells: All cells.

    Returns:
        The base case, for the second cell of the A/A pair the first one; None for a base case, and if there is none.
    """
    base = contestant.cell if contestant.again else matrix.base_of(study, contestant.cell, cells)
    return Contestant(base) if base and (base.key, False) != contestant.key else None
