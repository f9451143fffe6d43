"""Tables of predictions, of the back-test, and of predictions compared with measurements of runs."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from orchestrator import recipes
from orchestrator.cli import output
from orchestrator.config import Config
from orchestrator.prediction.backtest import NEAR, Tested
from orchestrator.prediction.communication_overlap import Options
from orchestrator.prediction.compare_with_runs import Reviewed, digits
from orchestrator.prediction.forecast import Forecast
from orchestrator.prediction.single_rank import Node
from orchestrator.prediction.uncertainty_band import Band


class View(NamedTuple):
    """Inputs of forecasts that are printed with them.

    Attributes:
        config: Configuration of the training.
        options: How gradients are exchanged.
        rank_step: A rank's step.
        node: Source of it.
        link: Source of the link.
        limits: What the best number of nodes must keep, as words; "" if it is not requested.
    """

    config: Config
    options: Options
    rank_step: Node
    node: str
    link: str
    limits: str = ""

    @property
    def images(self) -> int | None:
        """Training images of the data set; None if their number is not known."""
        images: int | None = recipes.datasets()[str(self.config.train.dataset)].get("train")
        return images

    @property
    def batch(self) -> int:
        """Images of a step of one rank."""
        return self.rank_step.batch * self.options.passes

    def beyond(self, predicted: Sequence[Forecast]) -> list[int]:
        """Return the numbers of nodes whose steps take more images than the data set has for training."""
        return [each.nodes for each in predicted if self.images and each.ranks * self.batch > self.images]


def forecasts(view: View, predicted: Sequence[Forecast], best: Forecast | None, json: bool) -> None:
    """Print forecasts, and the best number of nodes if that was asked for."""
    if json:
        chosen = {"best": best.nodes if best else None} if view.limits else {}
        sources = {"node": view.node, "link": view.link, "options": view.options}
        known = {"currency": view.config.currency, "batch_beyond_data": view.beyond(predicted)}
        return output.as_json({**sources, **chosen, **known, "forecasts": predicted})
    train, options = view.config.train, view.options
    output.line(f"{train.model} on {train.dataset}; one rank: {view.node}; link: {view.link}")
    passes = f"{options.passes} pass{'' if options.passes == 1 else 'es'} per step"
    gradients = f"{options.engine}, compression {_compression(predicted)}, {passes}"
    output.line(f"gradients: {gradients}; in brackets: 90 % bands")
    price = f"price ({view.config.currency})"
    output.table(
        ("nodes", "ranks", "step (ms)", "images/s", "efficiency (%)", "exposed (ms)", "time", price),
        [_row(forecast) for forecast in predicted],
    )
    if beyond := view.beyond(predicted):
        nodes = ", ".join(map(str, beyond))
        output.line(
            f"a step on {nodes} nodes takes more images than {train.dataset} has for training ({view.images:,}):"
            " `train` uses a smaller batch, or refuses the one that you set"
        )
    if view.limits:
        output.line(_best(best, view))
    return None


def _row(forecast: Forecast) -> tuple[object, ...]:
    return (
        forecast.nodes,
        forecast.ranks,
        _band(forecast.step_seconds.of(lambda seconds: seconds * 1e3)),
        _band(forecast.images_per_second),
        _band(forecast.efficiency.of(lambda share: share * 100), lambda percent: f"{percent:.1f}"),
        _band(forecast.exposed_seconds.of(lambda seconds: seconds * 1e3), _short),
        output.NOTHING if forecast.hours is None else _time(forecast.hours),
        output.NOTHING if forecast.price is None else _price(forecast.price),
    )


def _compression(predicted: Sequence[Forecast]) -> str:
    """Return the compression of several ranks, with the numbers of nodes if it differs among them."""
    several = [each for each in predicted if each.ranks > 1] or predicted
    kinds = dict.fromkeys(each.compression for each in several)
    nodes = {kind: ", ".join(str(each.nodes) for each in several if each.compression == kind) for kind in kinds}
    return " and ".join(f"{kind} on {nodes[kind]} nodes" if len(kinds) > 1 else kind for kind in kinds)


def _best(best: Forecast | None, view: View) -> str:
    if best is None:
        return f"none of these numbers of nodes {view.limits} at the upper end of its band"
    price = f", {_price(best.price)} {view.config.currency}" if best.price else ""
    hours = f": {_time(best.hours)}" if best.hours else ""
    return f"best: {best.nodes} node{'' if best.nodes == 1 else 's'}{hours}{price}"


def _band(band: Band, form: Callable[[float], str] = digits, unit: str = "") -> str:
    return f"{form(band.value)}{unit} ({form(band.low)} - {form(band.high)})"


def _price(price: Band) -> str:
    return _band(price, lambda value: f"{value:.2f}")


def _time(hours: Band) -> str:
    """Return a time in hours or, if it is shorter than one, in minutes."""
    if hours.value >= 1:
        return _band(hours, _short, " h")
    return _band(hours.of(lambda value: value * 60), _short, " min")


def _short(value: float) -> str:
    return digits(value, 3)


def backtested(tests: Sequence[Tested], json: bool) -> None:
    """Print published and predicted efficiencies, and the reasons of misses."""
    counted = [test for test in tests if not test.calibrates]
    near = sum(test.near for test in counted)
    if json:
        return output.as_json({"rows": [_record(test) for test in tests], "counted": len(counted), "near": near})
    output.line("efficiency on several GPUs: images/s of each, as a share of those of one GPU alone")
    output.table(
        ("source", "model", "GPUs", "link", "published", "predicted", "error, points", ""),
        [
            (t.entry.name, t.entry.model, t.gpus, t.entry.link, f"{t.published:.1%}", f"{t.predicted:.1%}",
             f"{t.error * 100:+.1f}", "constant" if t.calibrates else "" if t.near else "miss")
            for t in tests
        ],
    )  # fmt: skip
    output.line(
        f"{near} of {len(counted)} predictions within {NEAR * 100:.0f} points of what was published; the rows named"
        " `constant` gave the model a constant, and do not count. Why the others miss:"
    )
    for name, why in dict.fromkeys((test.entry.name, test.why) for test in tests if test.why):
        output.line(f"{name}: {why}")
    return None


def _record(test: Tested) -> dict[str, object]:
    entry = test.entry
    return {
        "source": entry.source, "model": entry.model, "gpus": test.gpus, "link": entry.link,
        "published": test.published, "predicted": test.predicted, "error": test.error, "calibrates": test.calibrates,
        "why": test.why,
    }  # fmt: skip


def reviewed(reviews: Sequence[Reviewed], json: bool) -> None:
    """Print every prediction and the measurement of its run, their median error, and the share inside the band."""
    errors = [abs(each.error) for each in reviews]
    inside = sum(each.inside for each in reviews)
    if json:
        middle = median(errors) if errors else None
        return output.as_json({"runs": reviews, "median_error": middle, "inside": inside, "counted": len(reviews)})
    if not reviews:
        output.line("no run has both a prediction and results yet: `train` on several ranks makes a prediction")
        output.line("if its cluster has a profile (`train --np 1`) and a measured link (`check`)")
        return None
    output.table(
        ("cluster", "run", "ranks", "predicted images/s", "90 % band", "measured", "error", "inside"),
        [
            (r.cluster, r.run, r.ranks, digits(r.predicted), f"{digits(r.low)} - {digits(r.high)}", digits(r.measured),
             f"{r.error:+.1%}", "yes" if r.inside else "no")
            for r in reviews
        ],
    )  # fmt: skip
    output.line(
        f"median error {median(errors):.1%}, {inside} of {len(reviews)} measurements inside the 90 % band;"
        " above zero: predicted faster than measured"
    )
    return None
