"""Measurements of a study so far, for tables: images per second and ratios of its contestants, launches left."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies import matrix, progress_messages
from orchestrator.studies.contestants import Contestant, base_of, contestants
from orchestrator.studies.detached_launches import Progress
from orchestrator.studies.launch_schedule import Schedule
from orchestrator.studies.round_ratios import by_round, ratio
from orchestrator.studies.study_definition import Study

AGAIN = " (again)"


@dataclass(frozen=True)
class Row:
    """A contestant: its measurements so far, and the ratio to its base case with the 95 % interval."""

    cell: str
    base: str | None
    launches: int = 0
    images_per_second: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Status:
    """State of a study.

    Attributes:
        name: Name of the study.
        runner: The process that runs it; None if none does.
        queue: Launches that the head makes; None if it makes none.
        complete: Whether no launch is left.
        given_up: Problems of cells that are not launched any more until the study is resumed, by the cell in words.
        launches: Number of launches so far.
        left: The remaining launches in words.
        shared: Options that all cells have in common, in words; titles of cells leave them out.
        cells: What each contestant measured.
    """

    name: str
    runner: str | None
    queue: Progress | None
    complete: bool
    given_up: dict[str, str]
    launches: int
    left: str
    shared: str
    cells: list[Row]


def title(contestant: Contestant, study: Study) -> str:
    """Return the contestant in words, without the options that all have in common."""
    return matrix.title(contestant.cell, study) + AGAIN * contestant.again


def rows(study: Study, cells: Sequence[Cell], launches: Sequence[Launch]) -> list[Row]:
    """Return what each contestant measured.

    Args:
        study: The study as it is measured.
        cells: Its cells.
        launches: Its launches so far.

    Returns:
        A row per contestant, the second cell of the A/A pair among them.
    """
    return [_row(study, cells, launches, contestant) for contestant in contestants(study, cells)]


def _row(study: Study, cells: Sequence[Cell], launches: Sequence[Launch], contestant: Contestant) -> Row:
    base = base_of(study, contestant, cells)
    images = by_round(launches, contestant.key).values()
    estimate = ratio(launches, contestant.key, base.key) if base else None
    interval = estimate.interval if estimate else None
    return Row(
        cell=title(contestant, study),
        base=title(base, study) if base else None,
        launches=len(images),
        images_per_second=median(images) if images else None,
        ratio=estimate.value if estimate else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )


def summarise(study: Study, launches: Sequence[Launch], process: str | None, queue: Progress | None = None) -> Status:
    """Return the state of a study.

    Args:
        study: The study as it is measured.
        launches: Its launches so far.
        process: The process that runs it, None if none does.
        queue: Launches that the head makes; None if it makes none.

    Returns:
        The state; cells of nodes have as many ranks as those that were launched.
    """
    slots, idle = matrix.ranks_per_node(launch.cell for launch in launches) or (1, 0)
    cells = matrix.cells(study, slots, idle)
    schedule = Schedule(study, cells, launches)
    complete = schedule.next() is None
    return Status(
        name=study.name,
        runner=process,
        queue=queue,
        complete=complete,
        given_up=schedule.problems(),
        launches=len(launches),
        left=progress_messages.remaining(schedule),
        shared=matrix.shared_options(study),
        cells=rows(study, cells, launches),
    )
