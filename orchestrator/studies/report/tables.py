"""Tables of a report as text, for every format. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orchestrator.studies.report import printed, words
from orchestrator.studies.report.cells import Group, Summary
from orchestrator.studies.report.comparison import Comparison
from orchestrator.studies.report.load import StudyFiles
from orchestrator.studies.statistics import Estimate


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
    compared = any(one.ratio for one in summaries)
    rows = [
        [
            one.series,
            str(one.cell.ranks),
            str(one.images.n if one.images else 0),
            words.estimate(one.images),
            _or_base(one, one.speed_up, words.factor),
            _or_base(one, one.efficiency, words.percent),
            *(["base" if one.is_base else words.estimate(one.ratio, words.factor)] if compared else []),
        ]
        for one in summaries
    ]
    ratio = [f"ratio to {words.plain(base)}"] if compared else []
    headings = ("engine", "ranks", "n", "images/s", "speed-up", "efficiency, %", *ratio)
    note = f"{INTERVAL_NOTE}Speed-up and efficiency: against the base case of the same engine."
    return Table(f"Speed: {words.plain(group)}", headings, _plain(rows), 2, note)


def time(group: Group, summaries: Sequence[Summary], target: float | None) -> Table:
    """Return accuracy, time to accuracy, split of a step, and conditions of each cell."""
    rows = [
        [
            one.series,
            str(one.cell.ranks),
            words.estimate(one.top1, words.percent),
            *([words.estimate(one.to_accuracy)] if target else []),
            *(words.maybe(part, words.milliseconds) for part in one.parts or (None,) * 3),
            one.results[0].config.precision if one.results else words.MISSING,
            str(one.results[0].config.threads) if one.results else words.MISSING,
            words.percent(one.busy),
        ]
        for one in summaries
    ]
    until = [f"s to top-1 {words.percent(target)} %"] if target else []
    parts = ("input, ms", "compute, ms", "communication, ms")
    headings = ("engine", "ranks", "top-1, %", *until, *parts, "precision", "threads per rank", "busy, %")
    note = "Busy: largest share of the machine that other programs used before a launch of the cell."
    return Table(f"Accuracy and time: {words.plain(group)}", headings, _plain(rows), 2, note)


def published(comparisons: Sequence[Comparison]) -> Table:
    """Return published numbers beside the measured ones."""
    rows = [
        [
            printed.cell_name(one.number),
            one.number.column,
            NAMES.get(one.number.metric, one.number.metric) + (f" ({one.reading})" if one.reading else ""),
            words.exact(one.published) + (f' ("{one.number.text}")' if one.number.text else ""),
            words.estimate(one.measured),
            words.estimate(one.ratio, words.factor),
            one.number.source,
        ]
        for one in comparisons
    ]
    headings = ("cell", "on", "number", "published", "measured", "measured / published", "source")
    return Table("Published numbers", headings, _plain(rows), 3, "")


NAMES = {"images_per_second": "images/s", "speed_up": "speed-up", "top1": "top-1"}


def groups(summaries: Sequence[Summary]) -> dict[Group, list[Summary]]:
    """Return the cells by what their drawings have in common."""
    found: dict[Group, list[Summary]] = {}
    for one in summaries:
        found.setdefault(one.group, []).append(one)
    return found


def failures(study: StudyFiles) -> Table:
    """Return the launches that gave no measurement."""
    rows = [
        [f"{one.cell.model} on {one.cell.dataset}, {one.cell.engine}", str(one.cell.ranks), str(one.round), one.problem]
        for one in study.launches
        if one.problem
    ]
    return Table("Launches without a measurement", ("cell", "ranks", "round", "problem"), _plain(rows))


def _or_base(one: Summary, value: Estimate | None, form: Callable[[float], str]) -> str:
    return words.estimate(value, form) if one.base != one.cell else "base"


def _plain(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [[words.plain(cell) for cell in row] for row in rows]
