"""Plots of a study: what each shows, chosen from its cells."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING

from orchestrator import plot
from orchestrator.plot import charts, inline
from orchestrator.plot.charts import Bar, Curve, Point
from orchestrator.plot.page import Plot
from orchestrator.studies import confidence_intervals
from orchestrator.studies.confidence_intervals import Estimate
from orchestrator.studies.report import cells, number_text
from orchestrator.studies.report.cells import Group, Summary

if TYPE_CHECKING:
    from orchestrator.plot.charts import Chart

MOST_BARS = 40


class _Sheet:
    """Plots of one group of cells, which share colours and legend."""

    def __init__(self, number: int, group: Group, summaries: Sequence[Summary], base: str) -> None:
        self.number, self.group, self.summaries, self.base = number, group, summaries, base
        names = dict.fromkeys(summary.series for summary in summaries)
        self.numbers = {number_text.plain(name): index for index, name in enumerate(names)}
        self.ticks = sorted({summary.cell.ranks for summary in summaries})
        self.wide = len(self.ticks) > 1 and self.ticks[-1] / self.ticks[0] > charts.MANY_TIMES

    def plots(self) -> Iterator[Plot]:
        """Yield the plots that have something to show."""
        if len(self.ticks) > 1 and any(summary.images for summary in self.summaries):
            yield self._speed()
            yield self._efficiency()
        if any(summary.ratio or cells.aa(summary) for summary in self.summaries):
            yield self._ratios()
        if any(summary.parts for summary in self.summaries):
            yield self._parts()
        if any(len(results.epochs) > 1 for summary in self.summaries for results in summary.results):
            yield self._accuracy("epochs", "epoch", lambda _, epochs: list(range(1, len(epochs) + 1)))
            yield self._accuracy("time", "seconds of training and evaluation", lambda times, _: times)

    def _speed(self) -> Plot:
        drawn = [
            Curve(number, _over_ranks(members, lambda summary: summary.images), _ideal(members))
            for number, members in self._series()
        ]
        figure = charts.curves(drawn, "ranks", "images/s", self.ticks, self.wide)
        (charts.logarithmic if self.wide else charts.from_zero)(figure)
        caption = "Bands are 95 % intervals of the median. Dashed: the base case times the number of ranks, the ideal."
        return self._plot("speed", "Images per second over ranks", caption, figure)

    def _efficiency(self) -> Plot:
        drawn = [
            Curve(number, _over_ranks(members, lambda summary: summary.efficiency and summary.efficiency.scaled(100)))
            for number, members in self._series()
        ]
        figure = charts.curves(drawn, "ranks", "efficiency, %", self.ticks, self.wide)
        charts.ideal_at(figure, 100.0)
        caption = "Speed-up / ranks, of the same rounds, with 95 % intervals. Dashed: 100 %, the ideal."
        return self._plot("efficiency", "Efficiency over ranks", caption, figure)

    def _ratios(self) -> Plot:
        bars = []
        for summary in self.summaries:
            label = f"{summary.series}, {summary.cell.ranks}"
            if summary.ratio:
                bars.append(Bar(number_text.plain(label), self._number(summary), _ends(summary.ratio)))
            if pair := cells.aa(summary):
                bars.append(Bar(number_text.plain(f"A/A: {label}"), self._number(summary), _ends(pair)))
        figure = charts.intervals(bars[:MOST_BARS], "ratio of images/s")
        caption = "Engine and ranks. Median of the ratios of the same rounds, with 95 % intervals; 1 is as fast as "
        caption += f"{self.base}. A/A: the same cell measured twice, which should hold 1."
        caption += _cut(len(bars))
        return self._plot("ratios", "Engines side by side", caption, figure, legend="")

    def _parts(self) -> Plot:
        with_parts = [summary for summary in self.summaries if summary.parts]
        bars = [
            Bar(
                number_text.plain(f"{summary.series}, {summary.cell.ranks}"),
                0,
                [part * 1e3 for part in summary.parts or ()],
            )
            for summary in with_parts[:MOST_BARS]
        ]
        caption = "Engine and ranks. Mean over ranks, median over launches. Communication includes waiting for others."
        caption += _cut(len(with_parts))
        figure = charts.parts(bars, "ms per step")
        return self._plot("parts", "Time of a step", caption, figure, inline.boxes(plot.PARTS))

    def _accuracy(self, name: str, x: str, xs: Callable[[list[float], list[float]], Sequence[float]]) -> Plot:
        """Draw the cell with the most ranks of each series, whose curves are not comparable at fewer."""
        drawn = []
        for number, members in self._series():
            times, scores = _learned(members[-1])
            points = [Point(x, *_ends(score.scaled(100))) for x, score in zip(xs(times, times), scores, strict=True)]
            drawn.append(Curve(number, points))
        figure = charts.curves(drawn, x, "top-1 of the test, %")
        most = ", ".join(sorted({str(members[-1].cell.ranks) for _, members in self._series()}))
        caption = f"Cells with the most ranks ({most}). Median over launches, with 95 % intervals."
        return self._plot(f"accuracy-{name}", f"Accuracy over {name}", caption, figure)

    def _series(self) -> list[tuple[int, list[Summary]]]:
        return [
            (number, [summary for summary in self.summaries if number_text.plain(summary.series) == name])
            for name, number in self.numbers.items()
        ]

    def _number(self, summary: Summary) -> int:
        return self.numbers[number_text.plain(summary.series)]

    def _plot(self, name: str, title: str, caption: str, figure: "Chart", legend: str | None = None) -> Plot:
        svg = inline.svg(figure, f"g{self.number}-{name}", f"{title}: {number_text.plain(self.group)}", caption)
        return Plot(title, caption, svg, inline.legend(self.numbers) if legend is None else legend)


def draw(groups: dict[Group, list[Summary]], base: str) -> dict[Group, list[Plot]]:
    """Return the plots of each group of cells.

    Args:
        groups: Cells by what their plots have in common.
        base: Name of what ratios are to.

    Returns:
        Plots in the order in which a page shows them.
    """
    with inline.drawing():
        return {
            group: list(_Sheet(number, group, members, base).plots())
            for number, (group, members) in enumerate(groups.items(), 1)
        }


def _cut(bars: int) -> str:
    return f" The first {MOST_BARS} of {bars}; the tables have all." if bars > MOST_BARS else ""


def _over_ranks(members: Sequence[Summary], value: Callable[[Summary], Estimate | None]) -> list[Point]:
    estimates = [(summary.cell.ranks, estimate) for summary in members if (estimate := value(summary))]
    return [Point(ranks, *_ends(estimate)) for ranks, estimate in estimates]


def _ideal(members: Sequence[Summary]) -> Callable[[float], float] | None:
    """Return the speed of the base case times ranks."""
    base = next((summary for summary in members if summary.cell == summary.base), None)
    if base is None or base.images is None:
        return None
    each = base.images.value / base.cell.ranks
    return lambda ranks: each * ranks


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    low, high = estimate.interval or (estimate.value, estimate.value)
    return estimate.value, low, high


def _learned(summary: Summary) -> tuple[list[float], list[Estimate]]:
    """Return the median time and the test accuracy at the end of each epoch that every launch has."""
    epochs = [results.epochs for results in summary.results if results.epochs]
    count = min(map(len, epochs), default=0)
    times = [list(accumulate(epoch.seconds + epoch.test_seconds for epoch in run)) for run in epochs]
    scores = (confidence_intervals.median([run[number].test.top1 for run in epochs]) for number in range(count))
    return [median(run[number] for run in times) for number in range(count)], [score for score in scores if score]
