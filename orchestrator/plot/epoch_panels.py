"""Panels of a training run over its epochs: loss, accuracy, images per second, the split of the step time."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import TYPE_CHECKING, Any

from orchestrator import plot
from orchestrator.bottleneck import split
from orchestrator.plot.inline import INK
from orchestrator.schema import Epoch, Results, time_to_accuracy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 1.08  # factor above the highest point
MARKED = 40  # epochs; longer curves have no markers
TIMES = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))  # units of time by their seconds


def panels(results: Results, top1: float | None) -> Mapping[str, Callable[["Axes"], None]]:
    """Return functions that draw a panel each, by name, in reading order.

    Args:
        results: Results of a run that has an epoch.
        top1: Accuracy (0 to 1) to mark in the panel over time, None for none.

    Returns:
        The functions. Each sets the panel's title, on the left, and its legend.
    """
    return {
        "loss": lambda panel: _over_epochs(_loss, panel, results),
        "top1": lambda panel: _over_epochs(_top1, panel, results),
        "time": lambda panel: _over_time(panel, results, top1),
        "speed": lambda panel: _over_epochs(_images, panel, results),
        "step": lambda panel: _over_epochs(_split, panel, results),
    }


def _loss(panel: "Axes", results: Results) -> None:
    for name, colour in plot.SPLITS.items():
        values = [getattr(epoch, name).loss for epoch in results.epochs]
        _line(panel, results.epochs, values, colour, f"{name}: {values[-1]:.3g} at the end")
    panel.set_ylim(0.0, max(max(epoch.train.loss, epoch.test.loss) for epoch in results.epochs) * ROOM or 1.0)
    _named(panel, "Loss", "nats")


def _top1(panel: "Axes", results: Results) -> None:
    for name, colour in plot.SPLITS.items():
        values = [getattr(epoch, name).top1 * 100 for epoch in results.epochs]
        _line(panel, results.epochs, values, colour, f"{name}: {max(values):.1f} % at best")
    if len(results.epochs) == 1:
        panel.set_ylim(0.0, 100.0)
    _named(panel, "Accuracy", "top-1, %")


def _over_time(panel: "Axes", results: Results, top1: float | None) -> None:
    """Draw the test's accuracy over the time of training and evaluation."""
    ends = list(accumulate(epoch.seconds + epoch.test_seconds for epoch in results.epochs))
    unit, name = next((unit, name) for unit, name in TIMES if ends[-1] >= 3 * unit or unit == 1.0)
    values = [epoch.test.top1 * 100 for epoch in results.epochs]
    panel.plot([end / unit for end in ends], values, color=plot.SPLITS["test"], linewidth=2.0,
               marker="o" if len(ends) <= MARKED else None, label="test")  # fmt: skip
    if top1 is not None:
        _mark(panel, top1 * 100, time_to_accuracy(results, top1), unit, name)
    panel.set_xlim(0.0, ends[-1] / unit * ROOM or 1.0)
    panel.set_xlabel(f"time of training and evaluation, {name}", size=11)
    _named(panel, "Accuracy over time", "top-1, %")


def _mark(panel: "Axes", percent: float, seconds: float | None, unit: float, name: str) -> None:
    when = "not reached" if seconds is None else f"after {seconds / unit:.3g} {name}"
    panel.axhline(percent, color=INK, linestyle=":", label=f"{percent:g} % {when}")
    if seconds is not None:
        panel.axvline(seconds / unit, color=INK, linestyle=":")


def _images(panel: "Axes", results: Results) -> None:
    measured = [epoch for epoch in results.epochs if epoch.images_per_second]
    values = [epoch.images_per_second for epoch in measured]
    average = f"{fmean(values):.0f} on average" if values else "not measured"
    _line(panel, measured, values, INK, f"all ranks together: {average}")
    panel.set_ylim(0.0, max(values, default=0.0) * ROOM or 1.0)
    _named(panel, "Speed", "images/s")


def _split(panel: "Axes", results: Results) -> None:
    """Draw stacked bars of the means over the ranks; an epoch without a split has no bar."""
    numbers, below = [epoch.epoch for epoch in results.epochs], [0.0] * len(results.epochs)
    for part, label in _shares(results).items():
        seconds = [getattr(epoch, f"{part}_seconds") for epoch in results.epochs]
        above = [start + fmean(each or [0.0]) * 1e3 for start, each in zip(below, seconds, strict=True)]
        _bars(panel, numbers, below, above, color=plot.PARTS[part], label=label)
        below = above
    if not any(below):
        panel.text(0.5, 0.5, "not in these results", transform=panel.transAxes, ha="center", color=INK)
        panel.set_yticks([])
    _named(panel, "One step", "ms, mean over ranks")


def _bars(panel: "Axes", numbers: Sequence[int], below: Sequence[float], above: Sequence[float], **style: Any) -> None:
    """Draw a bar for each epoch; of many epochs one outline, since thousands of bars take minutes."""
    if len(numbers) > MARKED:
        edges = [number - 0.5 for number in (*numbers, numbers[-1] + 1)]
        panel.stairs(above, edges, baseline=below, fill=True, **style)
    else:
        heights = [high - low for low, high in zip(below, above, strict=True)]
        panel.bar(numbers, heights, width=0.8, bottom=below, **style)


def _shares(results: Results) -> dict[str, str]:
    """Return the legend of each part with its share of all steps, counted as for the bottleneck."""
    ranks = split(results)
    seconds = {part: sum(getattr(rank, part) for rank in ranks) for part in plot.PARTS}
    whole = sum(seconds.values())
    return {part: f"{part} {spent / whole * 100:.0f} %" for part, spent in seconds.items()} if whole else {}


def _line(panel: "Axes", epochs: Sequence[Epoch], values: Sequence[float], colour: str, label: str) -> None:
    mark = "o" if len(epochs) <= MARKED else None
    panel.plot([epoch.epoch for epoch in epochs], values, color=colour, linewidth=2.0, marker=mark, label=label)


def _named(panel: "Axes", title: str, unit: str) -> None:
    """Set title and unit, and put the legend between title and panel, where it hides nothing."""
    panel.set_title(title, loc="left", weight="bold", size=13, pad=26)
    panel.set_ylabel(unit, size=11)
    named = panel.get_legend_handles_labels()[1]
    if named:
        panel.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=len(named), frameon=False, fontsize=10,
                     borderaxespad=0.2, columnspacing=1.2, handlelength=1.0, handletextpad=0.5)  # fmt: skip
    plot.plain(panel)


def _over_epochs(draw: "Callable[[Axes, Results], None]", panel: "Axes", results: Results) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator  # noqa: PLC0415

    draw(panel, results)
    epochs = results.epochs
    margin = 0.6 if len(epochs) > 1 else 2.0  # so that a single bar does not fill the panel
    panel.set_xlim(epochs[0].epoch - margin, epochs[-1].epoch + margin)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True) if len(epochs) > 1 else FixedLocator([epochs[0].epoch]))
    panel.set_xlabel("epoch", size=11)
