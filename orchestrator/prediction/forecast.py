"""Steps on several numbers of nodes, each with a 90 % band, and the time and price to the end of a recipe."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from orchestrator.prediction import communication_overlap, uncertainty_band
from orchestrator.prediction.allreduce_time import Topology
from orchestrator.prediction.cluster_links import Connection
from orchestrator.prediction.communication_overlap import Compression, Options, Step
from orchestrator.prediction.single_rank import Node
from orchestrator.prediction.uncertainty_band import Band

DRAWS, SEED = 200, 1


@dataclass(frozen=True)
class Forecast:
    """A predicted step of ``ranks`` on ``nodes``.

    Attributes:
        nodes: Number of nodes.
        ranks: Number of ranks.
        step_seconds: Seconds of a step.
        images_per_second: Of all ranks.
        efficiency: Images/s of a rank over those of one rank alone.
        exposed_seconds: Seconds of a step in which ranks only communicate.
        compression: Type in which gradients travel.
        hours: To the recipe's end; None if its images are not known.
        price: To the recipe's end; None if a price is not known.
    """

    nodes: int
    ranks: int
    step_seconds: Band
    images_per_second: Band
    efficiency: Band
    exposed_seconds: Band
    compression: Compression
    hours: Band | None = None
    price: Band | None = None


@dataclass(frozen=True)
class Recipe:
    """Work of a recipe: ``images`` of training and ``tested`` of evaluation, over all epochs."""

    images: float
    tested: float = 0.0

    def hours(self, node: Node, ranks: int, images_per_second: float) -> float:
        """Return the hours to the end; a test costs a forward pass."""
        return (self.images / images_per_second + self.tested * node.forward / node.batch / ranks) / 3600


class Case(NamedTuple):
    """A possible node and connection, and a factor on the steps of several ranks."""

    node: Node
    connection: Connection
    factor: float

    def step(self, nodes: int, options: Options) -> Step:
        """Return the step on ``nodes``."""
        predicted = communication_overlap.predict(self.node, self.connection.at(nodes), options)
        several = self.connection.at(nodes).ranks > 1
        return Step(predicted.seconds * (self.factor if several else 1.0), predicted.exposed)

    def alone(self, options: Options) -> float:
        """Return the seconds of a step of one rank."""
        connection = replace(self.connection, slots=1)
        return communication_overlap.predict(self.node, connection.at(1), options).seconds


def forecast(node: Node, connection: Connection, nodes: Sequence[int], options: Options) -> list[Forecast]:
    """Predict steps.

    The same draws of what is not known serve all numbers of nodes, so that their order does not depend on chance.

    Args:
        node: A rank's step without communication.
        connection: Of the ranks.
        nodes: Numbers of nodes.
        options: How gradients travel.

    Returns:
        A forecast for each number of nodes.
    """
    generator = random.Random(SEED)  # noqa: S311
    cases = [_drawn(node, connection, generator) for _ in range(DRAWS)]
    return [_forecast(Case(node, connection, 1.0), cases, count, options) for count in nodes]


def completed(predicted: Forecast, node: Node, recipe: Recipe, per_hour: float | None) -> Forecast:
    """Add time and price to the recipe's end.

    Args:
        predicted: The forecast.
        node: A rank's step without communication.
        recipe: What is computed.
        per_hour: Price of an hour of all nodes; None if not known.

    Returns:
        The forecast with both.
    """
    hours = predicted.images_per_second.of(lambda rate: recipe.hours(node, predicted.ranks, rate))
    price = hours.of(lambda value: value * per_hour) if per_hour is not None else None
    return replace(predicted, hours=hours, price=price)


def best(forecasts: Sequence[Forecast], deadline: float | None, budget: float | None) -> Forecast | None:
    """Return the fewest nodes that end within ``deadline`` hours, or the fastest within ``budget``; None if none does.

    With both, the fastest that keeps both.
    """
    candidates = [
        each
        for each in forecasts
        if (deadline is None or (each.hours and each.hours.high <= deadline))
        and (budget is None or (each.price and each.price.high <= budget))
    ]
    if budget is None:
        return min(candidates, key=lambda each: each.nodes, default=None)
    return min(candidates, key=lambda each: each.step_seconds.value / each.ranks, default=None)


def _drawn(node: Node, connection: Connection, generator: random.Random) -> Case:
    step_factor, model = (
        math.exp(generator.gauss(0, sigma)) for sigma in (connection.doubt.step, connection.doubt.model)
    )
    return Case(node.scaled(step_factor), connection.drawn(generator), model)


def _forecast(expected: Case, cases: Sequence[Case], nodes: int, options: Options) -> Forecast:
    topology: Topology = expected.connection.at(nodes)
    options = communication_overlap.chosen(expected.node, topology, options)
    images = topology.ranks * expected.node.batch * options.passes
    central, drawn = expected.step(nodes, options), [case.step(nodes, options) for case in cases]
    seconds = uncertainty_band.around(central.seconds, [each.seconds for each in drawn])
    alone = [case.alone(options) for case in cases]
    shares = [min(1.0, single / each.seconds) for single, each in zip(alone, drawn, strict=True)]
    return Forecast(
        nodes=nodes,
        ranks=topology.ranks,
        step_seconds=seconds,
        images_per_second=seconds.of(lambda value: images / value),
        efficiency=uncertainty_band.around(expected.alone(options) / central.seconds, shares),
        exposed_seconds=uncertainty_band.around(central.exposed, [each.exposed for each in drawn]),
        compression=options.compression,
    )
