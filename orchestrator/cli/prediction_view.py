"""Tables of predictions, of the back-test, and of predictions beside what runs measured."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from orchestrator.cli import output
from orchestrator.config import Config
from orchestrator.prediction.backtest import NEAR, Tested
from orchestrator.prediction.forecast import Band, Forecast
from orchestrator.prediction.review import Reviewed
from orchestrator.prediction.step import Options


class View(NamedTuple):
    """What is said beside forecasts.

    Attributes:
        config: What is trained.
        options: How gradients travel.
        node: What one rank's step is known from.
        link: What the link is known from.
        choice: Whether a number of nodes was asked for.
    """

    config: Config
    options: Options
    node: str
    link: str
    choice: bool


def forecasts(view: View, found: Sequence[Forecast], best: Forecast | None, json: bool) -> None:
    """Print forecasts, and the best number of nodes if that was asked for."""
    if json:
        chosen = {"best": best.nodes if best else None} if view.choice else {}
        sources = {"node": view.node, "link": view.link, "options": view.options}
        return output.as_json({**sources, **chosen, "currency": view.config.currency, "forecasts": found})
    train, options = view.config.train, view.options
    output.line(f"{train.model} on {train.dataset}; one rank: {view.node}; link: {view.link}")
    output.line(f"gradients: {options.engine}, compression {options.compression}, {options.passes} passes per step")
    output.table(
        ("nodes", "ranks", "step", "images/s", "efficiency", "exposed", "time", f"price ({view.config.currency})"),
        [_row(forecast) for forecast in found],
    )
    if view.choice:
        output.line(_best(best))
    return None


def _row(found: Forecast) -> tuple[object, ...]:
    return (
        found.nodes,
        found.ranks,
        _band(found.step_seconds, lambda seconds: f"{seconds * 1e3:.4g} ms"),
        _band(found.images_per_second, lambda rate: f"{rate:.4g}"),
        _band(found.efficiency, lambda share: f"{share:.1%}"),
        _band(found.exposed_seconds, lambda seconds: f"{seconds * 1e3:.3g} ms"),
        output.NOTHING if found.hours is None else _band(found.hours, _duration),
        output.NOTHING if found.price is None else _band(found.price, lambda price: f"{price:.2f}"),
    )


def _best(best: Forecast | None) -> str:
    if best is None:
        return "no number of nodes in the table keeps to that, at the upper end of its band"
    price = f", {best.price.value:.2f}" if best.price else ""
    hours = f": {_duration(best.hours.value)}" if best.hours else ""
    return f"best: {best.nodes} nodes{hours}{price}"


def _band(band: Band, form: Callable[[float], str]) -> str:
    return f"{form(band.value)} ({form(band.low)} - {form(band.high)})"


def _duration(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min"


def backtested(found: Sequence[Tested], json: bool) -> None:
    """Print published efficiencies beside predicted ones, and the reasons of misses."""
    counted = [test for test in found if not test.calibrates]
    near = sum(test.near for test in counted)
    if json:
        return output.as_json({"rows": [_record(test) for test in found], "counted": len(counted), "near": near})
    output.table(
        ("source", "model", "GPUs", "link", "published", "predicted", "error", ""),
        [
            (t.entry.name, t.entry.model, t.gpus, t.entry.link, f"{t.published:.1%}", f"{t.predicted:.1%}",
             f"{t.error * 100:+.1f}", "constant" if t.calibrates else "" if t.near else "miss")
            for t in found
        ],
    )  # fmt: skip
    output.line(
        f"{near} of {len(counted)} rows within {NEAR * 100:.0f} points; rows that a constant comes from do not count"
    )
    for name, why in dict.fromkeys((test.entry.name, test.why) for test in found if test.why):
        output.line(f"{name}: {why}")
    return None


def _record(test: Tested) -> dict[str, object]:
    entry = test.entry
    return {
        "source": entry.source, "model": entry.model, "gpus": test.gpus, "link": entry.link,
        "published": test.published, "predicted": test.predicted, "error": test.error, "calibrates": test.calibrates,
        "why": test.why,
    }  # fmt: skip


def reviewed(found: Sequence[Reviewed], json: bool) -> None:
    """Print every prediction beside what its run measured, their median error, and the share inside the band."""
    errors = [abs(each.error) for each in found]
    inside = sum(each.inside for each in found)
    if json:
        middle = median(errors) if errors else None
        return output.as_json({"runs": found, "median_error": middle, "inside": inside, "counted": len(found)})
    if not found:
        output.line("no run has both a prediction and results yet")
        return None
    output.table(
        ("cluster", "run", "ranks", "predicted", "band", "measured", "error", "inside"),
        [
            (r.cluster, r.run, r.ranks, f"{r.predicted:.4g}", f"{r.low:.4g} - {r.high:.4g}", f"{r.measured:.4g}",
             f"{r.error:+.1%}", "yes" if r.inside else "no")
            for r in found
        ],
    )  # fmt: skip
    output.line(f"median error {median(errors):.1%}, {inside} of {len(found)} inside the 90 % band")
    return None
