"""Bands, time and price, and the best number of nodes."""

import random
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.prediction import forecast, ready_gradients, single_rank
from orchestrator.prediction.allreduce_time import Link
from orchestrator.prediction.cluster_links import Connection
from orchestrator.prediction.communication_overlap import Options
from orchestrator.prediction.forecast import Recipe
from orchestrator.prediction.link_fit import Point

ONE = single_rank.from_step(32, 1.0, ready_gradients.estimate("resnet50", 224, 1000), cores=4.0)
LINK = Link(1e-3, 8e-9, 8e-9, load=1e-9)
NAMED = Connection(LINK, LINK)
POINTS = [Point(2, size, LINK.allreduce(size, 2) * wrong) for size, wrong in ((4, 1.1), (2**18, 0.9), (2**26, 1.0))]
RECIPE = Recipe(images=3600 * 32, tested=0)


def forecasts(connection: Connection = NAMED, **changes: Any) -> list[forecast.Forecast]:
    predicted = forecast.forecast(ONE, connection, [1, 2, 4, 8, 16], Options(**changes))
    return [forecast.completed(each, ONE, RECIPE, 2.0 * each.nodes) for each in predicted]


@pytest.mark.parametrize("connection", [NAMED, replace(NAMED, points=POINTS)])
def test_numbers_lie_in_their_bands_and_follow_the_nodes(connection: Connection) -> None:
    predicted = forecasts(connection)
    for each in predicted:
        for band in (each.step_seconds, each.images_per_second, each.efficiency, each.exposed_seconds, each.hours):
            assert band is not None
            assert band.low <= band.value <= band.high
    efficiencies = [each.efficiency for each in predicted]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert efficiencies[0].value == 1


def test_measured_link_has_a_narrower_band_than_a_named_one() -> None:
    named, measured = (forecasts(each)[-1].exposed_seconds for each in (NAMED, replace(NAMED, points=POINTS)))
    assert measured.high - measured.low < named.high - named.low


def test_predictions_are_the_same_every_time() -> None:
    assert forecasts() == forecasts()


def test_hours_and_price_follow_the_images_of_the_recipe() -> None:
    forecast_of_one_node = forecasts()[0]
    assert forecast_of_one_node.hours is not None
    assert forecast_of_one_node.hours.value == pytest.approx(1.0)
    assert forecast_of_one_node.price is not None
    assert forecast_of_one_node.price.value == pytest.approx(2.0)


def test_test_images_cost_a_forward_pass_each() -> None:
    assert Recipe(0, 3200).hours(ONE, 2, 1.0) == pytest.approx(100 * ONE.forward / 2 / 3600)


def test_fewest_nodes_that_surely_keep_the_deadline() -> None:
    predicted = forecasts()
    best = forecast.best(predicted, deadline=0.4, budget=None)
    assert best is not None
    assert best.hours is not None
    assert best.hours.high <= 0.4
    fewer = [each for each in predicted if each.nodes < best.nodes]
    assert all(each.hours is not None and each.hours.high > 0.4 for each in fewer)
    assert forecast.best(predicted, deadline=1e-6, budget=None) is None


def test_fastest_nodes_within_the_budget() -> None:
    predicted = forecasts()
    best = forecast.best(predicted, deadline=None, budget=2.8)
    assert best is not None
    assert best.price is not None
    assert best.price.high <= 2.8
    assert all(each.price is not None and each.price.high > 2.8 for each in predicted if each.nodes > best.nodes)


def test_draws_of_a_measured_link_keep_the_share_of_gpus() -> None:
    link = replace(LINK, share=0.1)
    drawn = Connection(link, LINK, points=POINTS).drawn(random.Random(1))  # noqa: S311
    assert drawn.link.share == 0.1


def test_draws_of_a_check_inside_one_node_move_the_link_within_it() -> None:
    drawn = Connection(LINK, LINK, points=POINTS).drawn(random.Random(1))  # noqa: S311
    assert drawn.local == drawn.link


def test_several_ranks_on_a_node_count_as_ranks() -> None:
    (predicted,) = forecast.forecast(ONE, replace(NAMED, slots=4), [2], Options())
    assert predicted.ranks == 8
    assert predicted.images_per_second.value == pytest.approx(8 * 32 / predicted.step_seconds.value)
