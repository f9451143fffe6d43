"""Charts of a page: curves with bands, bars of parts, and ratios with intervals. Their legends are the page's."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from orchestrator import plot
from orchestrator.plot.inline import INK, MARKERS, SERIES, marker

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Chart = Figure  # for modules that pass charts on

WIDTH, HEIGHT = 4.6, 3.1  # inches
MANY_TIMES = 8  # ratio of the ends of an axis from which it is logarithmic
GRID = 0.15  # opacity of the lines behind the curves
ROW = 0.21  # inches per bar
LABEL = 0.075  # inches per character of a bar's label, about
LINE = 0.15  # inches per further line of a bar's label
LONGEST = 30  # characters of a line of a bar's label
NARROWEST = 0.02  # width of an axis of ratios: on a narrower one labels overlap, and noise looks large


class Point(NamedTuple):
    """Point of a curve; ``low`` and ``high`` are the ends of its interval, or the value itself."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """Points of a curve; ``number`` selects colour and marker."""

    number: int
    points: Sequence[Point]
    ideal: Callable[[float], float] | None = None


class Bar(NamedTuple):
    """Row of a chart: its label and its value or values, ``number`` as of a curve."""

    label: str
    number: int
    values: Sequence[float]


def curves(drawn: Sequence[Curve], x: str, y: str, ticks: Sequence[float] = (), wide: bool = False) -> "Figure":
    """Draw curves with bands, and the ideal of each as a dashed line.

    Args:
        drawn: The curves.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        ticks: Values to mark on the horizontal axis, such as numbers of ranks; empty leaves the choice to the chart.
        wide: Whether the horizontal axis is logarithmic.

    Returns:
        The chart.
    """
    figure, panel = empty()
    for curve in drawn:
        _curve(panel, curve)
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    if wide:
        panel.set_xscale("log", base=2)
    if ticks:
        panel.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
    return figure


def ideal_at(figure: "Figure", value: float) -> None:
    """Mark an ideal value with a dashed line."""
    figure.axes[0].axhline(value, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), alpha=0.7)


def logarithmic(figure: "Figure") -> None:
    """Make the vertical axis logarithmic, with plain numbers at 1, 2 and 5 times each power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    axis = figure.axes[0].yaxis
    figure.axes[0].set_yscale("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:,.6g}")
    axis.set_minor_formatter(NullFormatter())


def from_zero(figure: "Figure") -> None:
    """Let the vertical axis begin at zero, so that heights can be compared; its numbers are as on a logarithmic one."""
    figure.axes[0].set_ylim(bottom=0.0)
    figure.axes[0].yaxis.set_major_formatter("{x:,.6g}")


def parts(bars: Sequence[Bar], x: str) -> "Figure":
    """Draw each bar as its parts, one after the other, in the order of :data:`orchestrator.plot.PARTS`."""
    figure, panel = _rows([bar.label for bar in bars])
    left = [0.0] * len(bars)
    for part, colour in enumerate(plot.PARTS.values()):
        widths = [bar.values[part] for bar in bars]
        panel.barh(range(len(bars)), widths, left=left, height=0.72, color=colour)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    panel.set_xlabel(x)
    panel.set_xlim(0.0, max(left) * 1.02 or 1.0)
    return figure


def intervals(bars: Sequence[Bar], x: str) -> "Figure":
    """Draw each bar's (value, low, high), a ratio, as a point with its interval, and a line at 1."""
    figure, panel = _rows([bar.label for bar in bars])
    panel.axvline(1.0, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), alpha=0.7)
    for row, bar in enumerate(bars):
        value, low, high = bar.values
        colour = SERIES[bar.number % len(SERIES)]
        panel.plot([low, high], [row, row], color=colour, linewidth=2.0)
        panel.plot([value], [row], color=colour, marker=MARKERS[marker(bar.number)], markersize=5)
    panel.set_xlabel(x)
    _widen(panel)
    return figure


def empty(height: float = HEIGHT) -> "tuple[Figure, Axes]":
    """Return an empty chart with fixed margins, which are laid out ten times as fast as fitted ones."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(WIDTH, height))
    figure.subplots_adjust(left=0.145, right=0.97, top=0.965, bottom=0.42 / height)
    panel = figure.add_subplot()
    plot.plain(panel)
    panel.grid(alpha=GRID)
    return figure, panel


def _widen(panel: "Axes") -> None:
    """Give an axis of ratios a least width, and few enough numbers for the narrowest chart."""
    low, high = panel.get_xlim()
    missing = max(0.0, NARROWEST - (high - low))
    panel.set_xlim(low - missing / 2, high + missing / 2)
    panel.locator_params(axis="x", nbins=5)


def _rows(labels: Sequence[str]) -> "tuple[Figure, Axes]":
    """Return an empty chart with a row for each label, the first on top."""
    labels = _fitted(labels)
    lines = [label.split("\n") for label in labels]
    height = (ROW + LINE * (max(map(len, lines), default=1) - 1)) * len(labels) + 0.55
    figure, panel = empty(height)
    room = min(0.5, (LABEL * max((len(line) for each in lines for line in each), default=0) + 0.1) / WIDTH)
    figure.subplots_adjust(left=room, top=1 - 0.08 / height)
    panel.set_yticks(range(len(labels)), list(labels))
    panel.set_ylim(len(labels) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    return figure, panel


def _fitted(labels: Sequence[str]) -> list[str]:
    """Return labels that leave room for their bars: short ones, or several lines if short ones would be equal."""
    short = [_short(label) for label in labels]
    if len(set(short)) == len(set(labels)):
        return short
    return ["\n".join(textwrap.wrap(label, LONGEST, break_on_hyphens=False)) for label in labels]


def _short(label: str) -> str:
    """Return a label that leaves room for its bar: its middle is left out, since ranks are at its end."""
    half = LONGEST // 2
    return label if len(label) <= LONGEST else f"{label[:half]}…{label[1 - half :]}"


def _curve(panel: "Axes", curve: Curve) -> None:
    colour = SERIES[curve.number % len(SERIES)]
    xs = [point.x for point in curve.points]
    if curve.ideal:
        panel.plot(xs, [curve.ideal(x) for x in xs], color=colour, linewidth=1.0, linestyle=(0, (4, 3)), alpha=0.7)
    lows, highs = [point.low for point in curve.points], [point.high for point in curve.points]
    panel.fill_between(xs, lows, highs, color=colour, alpha=0.22, linewidth=0)
    if len(xs) == 1:  # its band has no width
        panel.vlines(xs, lows, highs, color=colour, linewidth=2.0)
    shape = MARKERS[marker(curve.number)]
    panel.plot(xs, [point.y for point in curve.points], color=colour, linewidth=1.8, marker=shape, markersize=4.5)
