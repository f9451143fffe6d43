"""Measurements of each cell of a study: medians, ratios and their intervals. Pure."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from orchestrator.bottleneck import split
from orchestrator.schema import Epoch, Results, StepTimes
from orchestrator.schema.accuracy import time_to_accuracy, time_to_end
from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies import confidence_intervals, matrix, round_ratios
from orchestrator.studies.confidence_intervals import Estimate
from orchestrator.studies.report.study_directory import StudyFiles
from orchestrator.studies.study_definition import agrees, replaced

ACROSS = ("ranks", "nodes")  # keys in which the cells of one curve differ


class Group(NamedTuple):
    """Values that the cells of one plot have in common."""

    model: str
    dataset: str
    batch: int | None

    def __str__(self) -> str:
        return f"{self.model} on {self.dataset}" + (f", batch {self.batch}" if self.batch else "")


@dataclass(frozen=True)
class Summary:
    """A cell with everything that was measured of it.

    Attributes:
        cell: The cell.
        series: Name of the curve it belongs to: engine, and the options in which cells of the study differ.
        launches: Its launches, failed and repeated ones too, without the second one of an A/A pair.
        again: Launches of the second one of the A/A pair.
        counting: Those of ``launches`` from which the numbers are made: one of each round.
        results: Results of ``counting``, of those that have any.
        images: Images per second.
        speed_up: In single ranks, by rounds, against ``base``.
        efficiency: Speed-up / ranks.
        ratio: Images per second against those of the cell that has the study's base, by rounds.
        base: Cell of the same series with the fewest ranks.
        is_base: Whether the cell is a base of ratios.
        top1: Test accuracy after the last epoch, 0 to 1.
        parts: Seconds of a step by activity, mean over ranks and median over launches.
        to_accuracy: Seconds of training and evaluation until the study's accuracy, infinite for launches that did not
            reach it; None if the study has none.
        reached: How many of ``results`` reached it.
        seconds: Seconds of training of a whole epoch; None if every epoch was cut short.
        to_end: Seconds of training and evaluation until the end of the run.
        epochs: Epochs until then.
    """

    cell: Cell
    series: str
    launches: list[Launch]
    again: list[Launch]
    counting: list[Launch]
    results: list[Results]
    images: Estimate | None
    speed_up: Estimate | None
    efficiency: Estimate | None
    ratio: Estimate | None
    base: Cell
    is_base: bool
    top1: Estimate | None
    parts: StepTimes | None
    to_accuracy: Estimate | None
    reached: int
    seconds: Estimate | None
    to_end: Estimate | None
    epochs: Estimate | None

    @property
    def group(self) -> Group:
        """Return what the plot of this cell is of."""
        return Group(self.cell.model, self.cell.dataset, self.cell.batch)

    @property
    def busy(self) -> float:
        """Return the largest share of the machine that other programs used before a launch that counts."""
        return max((launch.busy for launch in self.counting), default=0.0)

    @property
    def test_samples(self) -> int | None:
        """Return how many test samples its accuracies are of; None for the whole test."""
        return min((limit for result in self.results if (limit := _test_limit(result))), default=None)


def _test_limit(result: Results) -> int | None:
    """Return the ``test_samples`` of a run; None if its test split has fewer."""
    limit = result.config.test_samples
    tested = result.epochs[-1].test.images if result.epochs else 0
    return limit if limit and tested >= limit else None


def whole_epochs(run: Results) -> list[Epoch]:
    """Return the epochs of a run without the last one if a number of steps or a time may have cut it short."""
    return run.epochs[:-1] if run.ended in ("steps", "max-time") else run.epochs


def summarise(study: StudyFiles) -> list[Summary]:
    """Return a summary of each cell, by group, series and ranks."""
    matrix = _Matrix(study)
    summaries = [matrix.summary(key) for key in matrix.cells]
    groups = list(dict.fromkeys(summary.group for summary in summaries))
    series = list(dict.fromkeys(summary.series for summary in summaries))
    return sorted(
        summaries, key=lambda summary: (groups.index(summary.group), series.index(summary.series), summary.cell.ranks)
    )


def namer(cells: Iterable[Cell]) -> Callable[[Cell], str]:
    """Return a function that names a cell's series by its engine and the options in which the cells differ."""
    every = list(cells)
    options = sorted({option for cell in every for option in cell.options})
    differing = [option for option in options if len({str(cell.options.get(option)) for cell in every}) > 1]
    _, idle = matrix.ranks_per_node(every) or (0, 0)
    places = {cell.ranks / (cell.nodes - idle) for cell in every if cell.nodes}

    def name(cell: Cell) -> str:
        words = [f"{option} {cell.options[option]}" for option in differing if option in cell.options]
        placed = [f"{cell.ranks / cell.nodes:g} per node"] if cell.nodes and len(places) > 1 else []
        return ", ".join([cell.engine, *words, *placed])

    return name


def aa(summary: Summary) -> Estimate | None:
    """Return the ratio of the two equal cells of the A/A pair, None if the cell has no pair."""
    key = summary.cell.key
    return round_ratios.ratio([*summary.launches, *summary.again], (key, True), (key, False))


def base_part(study: StudyFiles) -> dict[str, Any]:
    """Return what the cells have that others are compared with: the study's base, else its first engine."""
    base = replaced(study.about.base, study.about.replaced_datasets)
    return base or matrix.base_engine(study.about.engines)


def base_name(study: StudyFiles) -> str:
    """Return the base of the ratios in words."""
    values = base_part(study).items()
    return ", ".join(str(value) if key == "engine" else f"{key} {value}" for key, value in values)


class _Matrix:
    """All cells of a study by key, to compare each with its base cases."""

    def __init__(self, study: StudyFiles) -> None:
        self.study = study
        self.cells = {launch.key: launch.cell for launch in study.launches}
        self.launches: dict[str, list[Launch]] = {key: [] for key in self.cells}
        for launch in study.launches:
            self.launches[launch.key].append(launch)
        self.rounds = {key: round_ratios.by_round(launches, (key, False)) for key, launches in self.launches.items()}
        self.name = namer(self.cells.values())
        base = base_part(study)
        self.changed = tuple(base)
        self.of_base = {_identity(cell, *base): key for key, cell in self.cells.items() if agrees(cell, base)}
        self.fewest: dict[tuple[str, str], str] = {}
        for key in sorted(self.cells, key=lambda key: self.cells[key].ranks):
            self.fewest.setdefault(self.curve(key), key)

    def curve(self, key: str) -> tuple[str, str]:
        """Return what only the cells of one curve over ranks have in common."""
        cell = self.cells[key]
        return _identity(cell, *ACROSS), self.name(cell)

    def summary(self, key: str) -> Summary:
        """Return the summary of a cell."""
        cell, all_launches, rounds = self.cells[key], self.launches[key], self.rounds[key]
        target = self.study.about.target_top1
        launches = [launch for launch in all_launches if not launch.again]
        counting = round_ratios.counting(launches)
        results = self.study.results_of(counting)
        times = [time_to_accuracy(run, target) for run in results] if target else []
        base_key, other = self.fewest[self.curve(key)], self.of_base.get(_identity(cell, *self.changed), key)
        base, base_rounds = self.cells[base_key], self.rounds[base_key] if base_key != key else {}
        return Summary(
            cell=cell,
            series=self.name(cell),
            launches=launches,
            again=[launch for launch in all_launches if launch.again],
            counting=counting,
            results=results,
            images=confidence_intervals.median(list(rounds.values())),
            speed_up=confidence_intervals.speed_up(rounds, base_rounds, base.ranks),
            efficiency=confidence_intervals.efficiency(rounds, base_rounds, cell.ranks, base.ranks),
            ratio=confidence_intervals.ratio(rounds, self.rounds[other]) if other != key else None,
            base=base,
            is_base=other == key and key in self.of_base.values(),
            top1=_estimate(results, lambda run: run.epochs[-1].test.top1 if run.epochs else None),
            parts=_parts(results),
            to_accuracy=confidence_intervals.median([math.inf if seconds is None else seconds for seconds in times]),
            reached=sum(seconds is not None for seconds in times),
            seconds=_estimate(results, _epoch_seconds),
            to_end=_estimate(results, time_to_end),
            epochs=_estimate(results, lambda run: len(run.epochs)),
        )


def _identity(cell: Cell, *without: str) -> str:
    """Return a text that is the same for cells that differ in nothing but ``without``."""
    return json.dumps(matrix.rest(cell, without), sort_keys=True)


def _estimate(results: Iterable[Results], value: Callable[[Results], float | None]) -> Estimate | None:
    return confidence_intervals.median([number for run in results if (number := value(run)) is not None])


def _epoch_seconds(run: Results) -> float | None:
    """Return the median seconds of a run's whole epochs; None if it has none."""
    return median(epoch.seconds for epoch in epochs) if (epochs := whole_epochs(run)) else None


def _parts(results: Iterable[Results]) -> StepTimes | None:
    splits = [ranks for run in results if any(map(sum, ranks := split(run)))]
    means = [[fmean(part) for part in zip(*ranks, strict=True)] for ranks in splits]
    return StepTimes(*(median(part) for part in zip(*means, strict=True))) if means else None
