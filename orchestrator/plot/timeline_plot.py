"""Picture of a run's series over its minutes: images per second, loss, and the split of the step time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import plot
from orchestrator.config import output_file
from orchestrator.monitoring.prometheus import Series
from orchestrator.monitoring.series_summary import PREFIX

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(series: Sequence[Series], run: str, path: Path) -> None:
    """Write the picture of a run.

    Args:
        series: The run's series.
        run: Id of the run, the picture's title.
        path: The file; its suffix is the format.

    Raises:
        ConfigError: The file cannot be written, or its name ends in no known format.
    """
    plot.require(path)
    output_file.write(plot.rendered(picture(series, run), path.suffix.lower()), path, "--plot")


def picture(series: Sequence[Series], run: str) -> "Figure":
    """Draw three panels over the same minutes."""
    figure = plot.canvas(9.0, 9.0)
    figure.suptitle(run)
    panels = figure.subplots(3, 1, sharex=True)
    begin = min((timeseries.samples[0][0] for timeseries in series), default=0.0)
    for panel, drawn in zip(panels, (_images, _loss, _split), strict=True):
        drawn(panel, series, begin)
    panels[-1].set_xlabel("minutes")
    return figure


def _images(panel: "Axes", series: Sequence[Series], begin: float) -> None:
    for timeseries in _named(series, f"rank:{PREFIX}images:rate30s"):
        panel.plot(*_points(timeseries, begin), linewidth=0.8, label=f"rank {timeseries.labels.get('rank')}")
    for timeseries in _named(series, f"run:{PREFIX}images:rate30s"):
        panel.plot(*_points(timeseries, begin), color=plot.BLACK, linewidth=1.6, label="all ranks")
    panel.set_ylim(bottom=0.0)
    _finish(panel, "images/s")


def _loss(panel: "Axes", series: Sequence[Series], begin: float) -> None:
    for split, colour in plot.SPLITS.items():
        for timeseries in [s for s in _named(series, f"{PREFIX}loss") if s.labels.get("split") == split][:1]:
            panel.plot(*_points(timeseries, begin), color=colour, label=split)
    _finish(panel, "loss (nats)")


def _split(panel: "Axes", series: Sequence[Series], begin: float) -> None:
    parts = {
        part: dict(timeseries.samples)
        for part in plot.PARTS
        for timeseries in _named(series, f"run:{PREFIX}{part}:ratio")[:1]
    }
    common = sorted(set.intersection(*(set(samples) for samples in parts.values()))) if parts else []
    if common:
        minutes = [(time - begin) / 60 for time in common]
        areas = [[samples[time] for time in common] for samples in parts.values()]
        panel.stackplot(minutes, *areas, labels=list(parts), colors=[plot.PARTS[part] for part in parts])
    panel.set_ylim(0.0, 1.0)
    _finish(panel, "share of a step")


def _named(series: Sequence[Series], name: str) -> list[Series]:
    return [timeseries for timeseries in series if timeseries.name == name]


def _points(timeseries: Series, begin: float) -> tuple[list[float], list[float]]:
    return [(time - begin) / 60 for time, _ in timeseries.samples], [value for _, value in timeseries.samples]


def _finish(panel: "Axes", label: str) -> None:
    panel.set_ylabel(label)
    plot.plain(panel)
    if len(panel.get_legend_handles_labels()[1]) in range(1, 12):  # a longer legend hides the lines
        panel.legend(loc="best", fontsize="small")
