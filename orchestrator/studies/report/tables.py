"""Tables of a report as text, for every format. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orchestrator.studies.confidence_intervals import Estimate
from orchestrator.studies.report import measurement_conditions, number_text, published_numbers
from orchestrator.studies.report.cells import Group, Summary
from orchestrator.studies.report.compare_with_published import Comparison
from orchestrator.studies.report.study_directory import StudyFiles


@dataclass(frozen=True)
class Table:
    """A table of plain text: the first ``labels`` columns name a row, the others hold numbers or words."""

    title: str
    headings: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    labels: int = 1
    note: str = ""

    def is_text(self, column: int) -> bool:
        """Return whether a column holds words, which begin at its left side."""
        return column < self.labels or self.headings[column] in TEXTS


TEXTS = ("precision", "problem", "source")
INTERVAL_NOTE = "Median [95 % interval]; n is the number of launches. "


def speed(group: Group, summaries: Sequence[Summary], base: str) -> Table:
    """Return images/s, speed-up, efficiency and the ratio to the base engine of each cell."""
    compared = any(summary.ratio for summary in summaries)
    rows = [
        [
            summary.series,
            str(summary.cell.ranks),
            str(summary.images.n if summary.images else 0),
            number_text.estimate(summary.images),
            _or_base(summary, summary.speed_up, number_text.factor),
            _or_base(summary, summary.efficiency, number_text.percent),
            *(
                ["base" if summary.is_base else number_text.estimate(summary.ratio, number_text.factor)]
                if compared
                else []
            ),
        ]
        for summary in summaries
    ]
    ratio = [f"ratio to {number_text.plain(base)}"] if compared else []
    headings = ("engine", "ranks", "n", "images/s", "speed-up", "efficiency, %", *ratio)
    note = f"{INTERVAL_NOTE}Speed-up and efficiency: against the base case of the same engine."
    return Table(f"Speed: {number_text.plain(group)}", headings, _plain(rows), 2, note)


def time(group: Group, summaries: Sequence[Summary], target: float | None) -> Table:
    """Return accuracy, times to it and to the end, split of a step, and conditions of each cell."""
    rows = [
        [
            summary.series,
            str(summary.cell.ranks),
            number_text.estimate(summary.top1, number_text.percent),
            *([number_text.time_to(summary.to_accuracy, summary.reached)] if target else []),
            number_text.estimate(summary.to_end),
            number_text.maybe(summary.epochs and summary.epochs.value, number_text.exact),
            *(number_text.maybe(part, number_text.milliseconds) for part in summary.parts or (None,) * 3),
            summary.results[0].config.precision if summary.results else number_text.MISSING,
            str(summary.results[0].config.threads) if summary.results else number_text.MISSING,
            number_text.percent(summary.busy),
        ]
        for summary in summaries
    ]
    until = [f"s to top-1 {number_text.percent(target)} %"] if target else []
    times = (*until, "s to the end", "epochs", "input, ms", "compute, ms", "communication, ms")
    headings = ("engine", "ranks", "top-1, %", *times, "precision", "threads per rank", "busy, %")
    limits = measurement_conditions.test_samples(summaries)
    tested = f"Top-1: of {limits} test samples, not of the whole test. " if limits else ""
    reached = "k of n: launches that reached the accuracy; others count as slower than any. " if target else ""
    note = f"{tested}{reached}Busy: largest share of the machine that other programs used before a launch of the cell."
    return Table(f"Accuracy and time: {number_text.plain(group)}", headings, _plain(rows), 2, note)


def published(comparisons: Sequence[Comparison]) -> Table:
    """Return a table of published and measured numbers."""
    rows = [
        [
            published_numbers.cell_name(comparison.number),
            comparison.number.column,
            NAMES.get(comparison.number.metric, comparison.number.metric)
            + (f" ({comparison.reading})" if comparison.reading else ""),
            number_text.exact(comparison.published)
            + (f' ("{comparison.number.text}")' if comparison.number.text else ""),
            number_text.estimate(comparison.measured),
            number_text.estimate(comparison.ratio, number_text.factor),
            comparison.number.source,
        ]
        for comparison in comparisons
    ]
    headings = ("cell", "on", "number", "published", "measured", "measured / published", "source")
    return Table("Published numbers", headings, _plain(rows), 3, "")


NAMES = {"images_per_second": "images/s", "speed_up": "speed-up", "top1": "top-1"}


def groups(summaries: Sequence[Summary]) -> dict[Group, list[Summary]]:
    """Return the cells by what their plots have in common."""
    grouped: dict[Group, list[Summary]] = {}
    for summary in summaries:
        grouped.setdefault(summary.group, []).append(summary)
    return grouped


def failures(study: StudyFiles) -> Table:
    """Return the launches that gave no measurement."""
    rows = [
        [
            f"{launch.cell.model} on {launch.cell.dataset}, {launch.cell.engine}",
            str(launch.cell.ranks),
            str(launch.round + 1),
            launch.problem,
        ]
        for launch in study.launches
        if launch.problem
    ]
    return Table("Launches without a measurement", ("cell", "ranks", "round", "problem"), _plain(rows))


def _or_base(summary: Summary, value: Estimate | None, form: Callable[[float], str]) -> str:
    return number_text.estimate(value, form) if summary.base != summary.cell else "base"


def _plain(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [[number_text.plain(cell) for cell in row] for row in rows]
