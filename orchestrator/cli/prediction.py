"""Command that predicts training on more nodes, from one node and the link between them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from orchestrator import providers, recipes, state
from orchestrator.cli import (
    chosen_cluster,
    prediction_links,
    prediction_options,
    prediction_sources,
    prediction_tables,
)
from orchestrator.cli.options import HELP, ConfigFile, Json, Name, completed, key
from orchestrator.cli.prediction_sources import Overrides
from orchestrator.cli.prediction_tables import View
from orchestrator.config import Config
from orchestrator.errors import ConfigError
from orchestrator.lifecycle import prices
from orchestrator.lifecycle.prices import Item
from orchestrator.prediction import backtest, forecast, gradient_groups
from orchestrator.prediction.communication_overlap import Options, possible
from orchestrator.prediction.forecast import Forecast, Recipe
from orchestrator.prediction.gradient_groups import Engine
from orchestrator.runs import predict_runs, prediction_inputs


def register(app: typer.Typer) -> None:
    app.command()(predict)


def predict(
    context: typer.Context,
    model: Annotated[str | None, completed(HELP["train.model"], recipes.models)] = None,
    dataset: Annotated[str | None, key("train.dataset", complete=lambda: list(recipes.datasets()))] = None,
    nodes: prediction_options.Nodes = prediction_options.NODES,
    batch_size: Annotated[int | None, key("train.batch_size")] = None,
    image_size: Annotated[int | None, key("train.image_size")] = None,
    epochs: Annotated[int | None, key("train.epochs")] = None,
    precision: Annotated[str | None, key("train.precision")] = None,
    compression: Annotated[str | None, key("train.compression")] = None,
    backward_passes_per_step: Annotated[int | None, key("train.backward_passes_per_step")] = None,
    hierarchical: Annotated[bool | None, key("train.hierarchical", "--hierarchical/--no-hierarchical")] = None,
    engine: prediction_options.EngineName = "ours",
    slots: prediction_options.Slots = None,
    step_seconds: prediction_options.StepSeconds = None,
    images_per_second: prediction_options.Rate = None,
    cores: prediction_options.Cores = None,
    link: prediction_options.LinkRate = None,
    latency: prediction_options.Latency = None,
    within: prediction_options.Within = "pcie",
    machine_type: prediction_options.MachineTypeName = None,
    deadline: prediction_options.Deadline = None,
    budget: prediction_options.Budget = None,
    node_price: prediction_options.NodePrice = None,
    make_profile: prediction_options.MakeProfile = False,
    backtested: prediction_options.Backtest = False,
    reviewed: prediction_options.Review = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Predict step time, images/s, efficiency, time and price of MODEL on more nodes, each with a 90 % band."""
    if backtested or reviewed:
        prediction_options.require_alone(context)
    if backtested:
        return prediction_tables.backtested(backtest.test(), json)
    if reviewed:
        return prediction_tables.reviewed(predict_runs.review(), json)
    flags = {
        "train.model": model, "train.dataset": dataset, "train.batch_size": batch_size, "train.epochs": epochs,
        "train.image_size": image_size, "train.precision": precision, "train.compression": compression,
        "train.backward_passes_per_step": backward_passes_per_step, "train.hierarchical": hierarchical,
    }  # fmt: skip
    config = chosen_cluster.load_config(config_file, name, flags)
    recipes.require(config.train)
    counts, limit = prediction_options.node_counts(nodes), prediction_options.hours(deadline)
    chosen_engine = prediction_options.engine_named(engine)
    overrides = Overrides(step_seconds, images_per_second, cores, link, latency, within, machine_type, slots)
    prediction_sources.require_one_speed(overrides)
    if make_profile:
        prediction_sources.make_profile(config, overrides)
    config = prediction_sources.with_nodes(config, overrides)
    view, predicted = _forecasts(config, overrides, counts, chosen_engine)
    predicted = [_completed(each, view, node_price) for each in predicted]
    limits = prediction_options.limits(limit, budget, config.currency)
    if limits:
        _require_end_and_price(predicted[-1], config, budget)
    best = forecast.best(predicted, limit, budget) if limits else None
    prediction_tables.forecasts(view._replace(limits=limits), predicted, best, json)


def _forecasts(
    config: Config, overrides: Overrides, counts: Sequence[int], engine: Engine
) -> tuple[View, list[Forecast]]:
    """Return the inputs of forecasts, and the forecast of each number of nodes in ``counts`` without time and price."""
    history = prediction_inputs.History(state.for_cluster(config.name))
    rank_step, source = prediction_sources.node(config, overrides, history)
    without = prediction_sources.heads_without_ranks(config, rank_step, overrides, history)
    counts = prediction_options.nodes_with_ranks(counts, without)
    connected, link = prediction_links.connection(config, rank_step, overrides, history, max(counts))
    options = _options(config, source.precision, engine)
    connected = replace(connected, hierarchical=config.train.hierarchical)
    predicted = forecast.forecast(rank_step, connected, counts, options)
    text = "; ".join([source.text, *[prediction_options.HEAD_WITHOUT_RANKS] * without])
    view = View(config, options, rank_step, text, link)
    return view, [replace(each, nodes=each.nodes + without) for each in predicted]


def _options(config: Config, precision: str, engine: Engine) -> Options:
    """Return how gradients travel."""
    exchange = recipes.gradient_exchange.settings(config.train)
    launch = recipes.gradient_exchange.with_recipe(config.train, config.launch)
    group = gradient_groups.largest(engine, launch.fusion_threshold)
    passes = int(exchange["backward_passes_per_step"])
    compression = possible(exchange["compression"], precision, engine, exchange["adasum"])
    base = Options(engine=engine, compression=compression, passes=passes, group=group)
    return base if launch.cycle_time is None else replace(base, cycle=launch.cycle_time / 1e3)


def _completed(predicted: Forecast, view: View, node_price: float | None) -> Forecast:
    """Add time and price to the end of training, where images and prices are known."""
    work = _work(view, predicted.ranks)
    if work is None:
        return predicted
    return forecast.completed(predicted, view.rank_step, work, _per_hour(predicted.nodes, view.config, node_price))


def _work(view: View, ranks: int) -> Recipe | None:
    """Return the images to the end of the recipe, or of `train.steps`; None if the data set's number is not known."""
    train = view.config.train
    if view.images is None:
        return None
    images = (train.epochs or int(recipes.recipe(train)["epochs"])) * view.images
    if train.steps is not None:
        images = min(images, train.steps * ranks * view.batch)
    tested = recipes.datasets()[str(train.dataset)].get("test", 0)
    return Recipe(images, math.ceil(images / view.images) * min(tested, train.test_samples or tested))


def _require_end_and_price(predicted: Forecast, config: Config, budget: float | None) -> None:
    """Raise ConfigError if nothing can be chosen, since the end or the price is not known."""
    if predicted.hours is None:
        problem = f"--deadline and --budget need an end of training, and data set {config.train.dataset} has none"
        raise ConfigError([problem], "choose another data set, or leave them out")
    if budget is not None and predicted.price is None:
        missing = ", ".join(item.name for item in _bill(predicted.nodes, config) if item.each is None)
        raise ConfigError(
            [f"--budget: no price is known of {missing or 'the nodes'}"],
            "add it to `prices` in cluster.yaml, or give --node-price",
        )


def _per_hour(nodes: int, config: Config, node_price: float | None) -> float | None:
    """Return the price of an hour of ``nodes``; None if it is not known."""
    if node_price is not None:
        return nodes * node_price
    if not config.prices:  # importing a provider's client takes as long as the rest
        return None
    sums = [item.sum for item in _bill(nodes, config)]
    return sum(each for each in sums if each is not None) if sums and None not in sums else None


def _bill(nodes: int, config: Config) -> list[Item]:
    resized = config.model_copy(update={"nodes": nodes})
    return prices.bill(providers.get(config.provider).priced(resized), config.prices)
