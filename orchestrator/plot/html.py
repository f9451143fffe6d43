"""Page of a run for a browser, with its curves as drawings: it needs no other file and no network."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from orchestrator.bottleneck import explain
from orchestrator.plot import charts, epoch_panels, inline, page
from orchestrator.schema import Results, accuracy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def text(results: Results, top1: float | None = None) -> str:
    """Return the page of a run that has at least one epoch.

    Args:
        results: Results of the run.
        top1: Accuracy (0 to 1) whose time is asked for, None for none.

    Returns:
        The page.
    """
    with inline.drawing():
        plots = [_plot(name, draw) for name, draw in epoch_panels.panels(results, top1).items()]
    shown = facts(results) | ({"time to accuracy": accuracy.describe(results, top1)} if top1 else {})
    main = [page.section("curves", "Curves", page.figures(plots)), page.section("facts", "Facts", page.facts(shown))]
    return page.document(results.run, [page.lead(f"{results.config.model} on {results.config.dataset}")], main)


def _plot(name: str, draw: "Callable[[Axes], None]") -> page.Plot:
    """Return a panel with its title and legend as text of the page, where they wrap."""
    figure, panel = charts.empty()
    draw(panel)
    panel.grid(alpha=charts.GRID)
    title, colours = panel.get_title("left"), _colours(panel)
    panel.set_title("", loc="left")
    for label in (panel.xaxis.label, panel.yaxis.label):
        label.set_fontsize(inline.FONT_SIZE)
    described = "; ".join([f"{panel.get_ylabel()} by {panel.get_xlabel()}", *colours])
    return page.Plot(title, "", inline.svg(figure, name, title, described), inline.boxes(colours))


def _colours(panel: "Axes") -> dict[str, str]:
    """Remove the panel's legend, and return the colour of each of its labels."""
    from matplotlib.colors import to_hex  # noqa: PLC0415
    from matplotlib.lines import Line2D  # noqa: PLC0415

    legend = panel.get_legend()
    if legend is None:
        return {}
    legend.remove()
    handles: list[Any] = legend.legend_handles  # lines or patches
    colours = [each.get_color() if isinstance(each, Line2D) else each.get_facecolor() for each in handles]
    labels = [text.get_text() for text in legend.get_texts()]
    return {label: to_hex(colour).upper() for label, colour in zip(labels, colours, strict=True)}


def facts(results: Results) -> dict[str, str]:
    """Return the facts of a run that has at least one epoch, by name."""
    config, best = results.config, max(results.epochs, key=lambda epoch: epoch.test.top1)
    images = max(epoch.train.images for epoch in results.epochs)  # the last epoch may have ended early
    return {
        "model": f"{config.model}, {results.parameters:,} parameters, images of {config.image_size} pixels",
        "data": f"{config.dataset}: {images:,} training images per epoch, {best.test.images:,} test images",
        "ranks": f"{results.world.size} on {', '.join(dict.fromkeys(results.world.hosts))}",
        "batch": f"{results.effective_batch_size // results.world.size} images per rank and step, "
        f"{results.effective_batch_size} together",
        "learning rate": f"up to {results.peak_learning_rate:g}, schedule {config.schedule}",
        "arithmetic": config.precision,
        "seed": str(config.seed),
        "best": f"test top-1 {best.test.top1:.2%}, top-5 {best.test.top5:.2%}, in epoch {best.epoch}",
        "time": f"{_time(results)}, {_epochs(results, images)}, ended by {results.ended or 'nothing yet'}",
        **({"speed": str(explanation)} if (explanation := explain(results)) else {}),
        "versions": ", ".join(f"{name} {version}" for name, version in results.versions.items()),
    }


def _epochs(results: Results, images: int) -> str:
    """Return the number of epochs, whose training takes ``images`` images each unless the run ended within one."""
    part = results.ended not in (None, "epochs") and results.epochs[-1].train.images < images
    whole = len(results.epochs) - part
    return f"{whole} epoch{'s' * (whole != 1)}{' and a part of the next' * part}"


def headline(results: Results) -> str:
    """Return the main facts in one line, for the space below a picture."""
    nodes = len(set(results.world.hosts))
    batch = results.effective_batch_size // results.world.size
    counted = f"{results.world.size} rank{'s' * (results.world.size > 1)} on {nodes} node{'s' * (nodes > 1)}"
    return f"{counted}, {batch} images per rank and step, {results.config.precision}, {_time(results)}  ({results.run})"


def _time(results: Results) -> str:
    """Return the time of training and tests as h:mm:ss."""
    return str(timedelta(seconds=round(sum(epoch.seconds + epoch.test_seconds for epoch in results.epochs))))
