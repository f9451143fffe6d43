"""Picture of a training run: loss, accuracy, images per second, the split of the step time, and accuracy over time."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import plot
from orchestrator.bottleneck import explain
from orchestrator.config import output_file
from orchestrator.errors import StateError
from orchestrator.plot import epoch_panels, html
from orchestrator.schema import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (*plot.FORMATS, ".html")
WIDE, HIGH = 16.0, 9.0  # inches: a slide
PLACES: list[Any] = [["loss", "top1", "time"], ["speed", "step", "step"]]


def draw(results: Results, path: Path, top1: float | None = None) -> None:
    """Write the picture of a run, or a page with it.

    Args:
        results: Results of the run.
        path: File to write.
        top1: Accuracy (0 to 1) to mark; by default the one that the run was to reach.

    Raises:
        ConfigError: The file cannot be written, or its name ends in no known format.
        StateError: The run has no epoch.
    """
    plot.require(path, FORMATS)
    if not results.epochs:
        raise StateError(f"run {results.run} has no epoch to draw", "it ended before its first epoch did")
    suffix, top1 = path.suffix.lower(), results.config.until_top1 if top1 is None else top1
    if suffix == ".html":
        return output_file.write(html.text(results, top1).encode(), path, "--plot")
    output_file.write(plot.rendered(picture(results, top1), suffix), path, "--plot")


def picture(results: Results, top1: float | None = None) -> "Figure":
    """Draw four panels over the same epochs, and the accuracy over time with a mark where it reached ``top1``."""
    figure = plot.canvas(WIDE, HIGH)
    figure.suptitle(f"{results.config.model} on {results.config.dataset}", x=0.01, ha="left", size=18, weight="bold")
    explanation = explain(results)
    title = f"{html.headline(results)}\n{explanation.finding if explanation else ''}".strip()
    figure.supxlabel(title, x=0.01, ha="left", size=11, linespacing=1.5)
    places = figure.subplot_mosaic(PLACES)
    for name, draw_panel in epoch_panels.panels(results, top1).items():
        draw_panel(places[name])
    return figure
