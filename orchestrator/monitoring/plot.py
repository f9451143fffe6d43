"""A run as a picture: images per second, loss, and where the time of a step goes, over the minutes of the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError
from orchestrator.monitoring.prometheus import Series
from orchestrator.monitoring.summary import PARTS, PREFIX, SPLITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
INCHES, DOTS_PER_INCH = (9.0, 9.0), 120


def require(path: Path) -> None:
    """Raises ConfigError where no picture can be written to a file of that name."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError([f"--plot: {path}: a picture ends with {', '.join(FORMATS)}"])


def draw(series: Sequence[Series], run: str, path: Path) -> None:
    """Write the picture of run ``run``. Raises ConfigError where that cannot be done."""
    require(path)
    try:
        picture(series, run).savefig(path, dpi=DOTS_PER_INCH)
    except OSError as error:
        raise ConfigError([f"--plot: {path}: {error.strerror}"], "name a file in a directory that is there") from error


def picture(series: Sequence[Series], run: str) -> "Figure":
    """Three panels over the same minutes."""
    from matplotlib.figure import Figure  # noqa: PLC0415  it takes a second, and nothing else needs it

    figure = Figure(figsize=INCHES, layout="constrained")
    figure.suptitle(run)
    panels = figure.subplots(3, 1, sharex=True)
    begin = min((one.samples[0][0] for one in series), default=0.0)
    for panel, drawn in zip(panels, (_images, _loss, _split), strict=True):
        drawn(panel, series, begin)
    panels[-1].set_xlabel("minutes")
    return figure


def _images(panel: "Axes", series: Sequence[Series], begin: float) -> None:
    for one in _named(series, f"rank:{PREFIX}images:rate30s"):
        panel.plot(*_points(one, begin), linewidth=0.8, label=f"rank {one.labels.get('rank')}")
    for one in _named(series, f"run:{PREFIX}images:rate30s"):
        panel.plot(*_points(one, begin), color="black", linewidth=1.6, label="all ranks")
    panel.set_ylim(bottom=0.0)
    _finish(panel, "images/s")


def _loss(panel: "Axes", series: Sequence[Series], begin: float) -> None:
    for split in SPLITS:
        for one in [s for s in _named(series, f"{PREFIX}loss") if s.labels.get("split") == split][:1]:
            panel.plot(*_points(one, begin), label=split)
    _finish(panel, "loss (nats)")


def _split(panel: "Axes", series: Sequence[Series], begin: float) -> None:
    parts = {part: dict(one.samples) for part in PARTS for one in _named(series, f"run:{PREFIX}{part}:ratio")[:1]}
    common = sorted(set.intersection(*(set(samples) for samples in parts.values()))) if parts else []
    if common:
        minutes = [(time - begin) / 60 for time in common]
        panel.stackplot(minutes, *([samples[t] for t in common] for samples in parts.values()), labels=list(parts))
    panel.set_ylim(0.0, 1.0)
    _finish(panel, "share of a step")


def _named(series: Sequence[Series], name: str) -> list[Series]:
    return [one for one in series if one.name == name]


def _points(one: Series, begin: float) -> tuple[list[float], list[float]]:
    return [(time - begin) / 60 for time, _ in one.samples], [value for _, value in one.samples]


def _finish(panel: "Axes", label: str) -> None:
    panel.set_ylabel(label)
    panel.grid(alpha=0.3)
    if len(panel.get_legend_handles_labels()[1]) in range(1, 12):  # more of them hide the lines
        panel.legend(loc="best", fontsize="small")
