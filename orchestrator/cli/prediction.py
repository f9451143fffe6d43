"""Command that predicts training on more nodes, from one node and the link between them."""

from dataclasses import replace
from typing import Annotated

import typer

from orchestrator import providers, recipes, state
from orchestrator.cli import options, prediction_links, prediction_sources, prediction_tables
from orchestrator.cli.options import HELP, ConfigFile, Json, Name, completed, key
from orchestrator.cli.prediction_sources import PROFILE_STEPS, Overrides
from orchestrator.config import Config
from orchestrator.config.sections import MAX_SLOTS, seconds
from orchestrator.errors import ConfigError
from orchestrator.lifecycle import prices
from orchestrator.lifecycle.prices import Item
from orchestrator.prediction import backtest, forecast, machine_types
from orchestrator.prediction.cluster_links import Connection
from orchestrator.prediction.communication_overlap import Options, carried
from orchestrator.prediction.forecast import Forecast, Recipe
from orchestrator.prediction.gradient_groups import GROUP, Engine
from orchestrator.prediction.single_rank import Node
from orchestrator.runs import prediction_inputs
from orchestrator.schema.bounded_files import shown

NODES, MOST_NODES = "1,2,4,8,16", 100_000
ENGINES: dict[str, Engine] = {  # as in `train --engine`, and the short names; the other engines have no model
    "ours": "ours",
    "horovod-tensorflow": "horovod",
    "horovod-torch": "horovod",
    "torch-ddp": "torch-ddp",
    "ray-torch": "torch-ddp",  # it wraps the network in DistributedDataParallel
    "tensorflow-parameter-server": "parameter-server",
    "horovod": "horovod",
    "parameter-server": "parameter-server",
}
A_SPEED, A_PRICE = options.between(1e-6, 1e9), options.between(0, 1e9)

Nodes = Annotated[str, typer.Option("--nodes", metavar="N,N,…", help="Numbers of nodes to predict, as in 2,4,8.")]
StepSeconds = Annotated[
    float | None,
    typer.Option("--step-seconds", callback=A_SPEED, help="Seconds of a step of one rank, instead of a profile."),
]
Rate = Annotated[
    float | None,
    typer.Option("--images-per-second", callback=A_SPEED, help="Images/s of one rank, instead of a profile."),
]
Cores = Annotated[
    int | None,
    typer.Option(
        "--cores",
        callback=options.between(1, 10_000),
        help="Cores of a rank without a GPU; default: of the profile or the machine type, else the rank has a GPU.",
    ),
]
LinkRate = Annotated[
    str | None,
    typer.Option(
        "--link", metavar="RATE", help="Link between nodes (10gbit, 25gbit-roce, 100gbit-ib, 25gbit-cloud); default: as"
        " `orchestrator check` measured it, else the cloud's limit for the machine type or flavor.",
    ),
]  # fmt: skip
Latency = Annotated[str | None, typer.Option("--latency", metavar="TIME", help="Latency of that link: 50us, 2ms.")]
MachineTypeName = Annotated[
    str | None,
    typer.Option(
        "--machine-type", metavar="NAME", autocompletion=options.completion(lambda: list(machine_types.by_name())),
        help="Google's machine type of all nodes, for link and price; default: that of cluster.yaml.",
    ),
]  # fmt: skip
Within = Annotated[
    str, typer.Option("--within", metavar="KIND", help="Link between the GPUs of a node: pcie, nvlink or nvswitch.")
]
Slots = Annotated[
    int | None,
    typer.Option(
        "--slots",
        callback=options.between(1, MAX_SLOTS),
        help="Ranks per node; default: those of cluster.yaml, else one per GPU of a machine type, or one.",
    ),
]
Hierarchical = Annotated[
    bool, typer.Option("--hierarchical", help="Reduce within each node first, then between nodes.")
]
EngineName = Annotated[
    str,
    typer.Option("--engine", metavar="NAME", help=f"Program that exchanges gradients: {', '.join(ENGINES)}."),
]
Deadline = Annotated[
    str | None,
    typer.Option("--deadline", metavar="TIME", help="Find the number of nodes that ends within this time (2h)."),
]
Budget = Annotated[
    float | None,
    typer.Option("--budget", callback=A_PRICE, help="Find the number of nodes that costs at most this."),
]
NodePrice = Annotated[
    float | None,
    typer.Option(
        "--node-price", callback=A_PRICE, help="Price of a node per hour; default: from `prices` in cluster.yaml."
    ),
]
MakeProfile = Annotated[
    bool, typer.Option("--profile", help=f"First train {PROFILE_STEPS} steps on one rank of the cluster.")
]
Backtest = Annotated[bool, typer.Option("--backtest", help="Compare predictions with what others published.")]
Review = Annotated[bool, typer.Option("--review", help="Compare earlier predictions with what the runs measured.")]


def register(app: typer.Typer) -> None:
    app.command()(predict)


def predict(
    model: Annotated[str | None, completed(HELP["train.model"], recipes.models)] = None,
    dataset: Annotated[str | None, key("train.dataset", complete=lambda: list(recipes.datasets()))] = None,
    nodes: Nodes = NODES,
    batch_size: Annotated[int | None, key("train.batch_size")] = None,
    image_size: Annotated[int | None, key("train.image_size")] = None,
    epochs: Annotated[int | None, key("train.epochs")] = None,
    precision: Annotated[str | None, key("train.precision")] = None,
    compression: Annotated[str | None, key("train.compression")] = None,
    backward_passes_per_step: Annotated[int | None, key("train.backward_passes_per_step")] = None,
    engine: EngineName = "ours",
    slots: Slots = None,
    hierarchical: Hierarchical = False,
    step_seconds: StepSeconds = None,
    images_per_second: Rate = None,
    cores: Cores = None,
    link: LinkRate = None,
    latency: Latency = None,
    within: Within = "pcie",
    machine_type: MachineTypeName = None,
    deadline: Deadline = None,
    budget: Budget = None,
    node_price: NodePrice = None,
    make_profile: MakeProfile = False,
    backtested: Backtest = False,
    reviewed: Review = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Predict step time, images/s, efficiency, time and price of MODEL on more nodes, each with a 90 % band."""
    if backtested:
        return prediction_tables.backtested(backtest.test(), json)
    if reviewed:
        return prediction_tables.reviewed(prediction_inputs.review(), json)
    flags = {
        "train.model": model, "train.dataset": dataset, "train.batch_size": batch_size, "train.epochs": epochs,
        "train.image_size": image_size, "train.precision": precision, "train.compression": compression,
        "train.backward_passes_per_step": backward_passes_per_step,
    }  # fmt: skip
    config = options.load(config_file, name, flags)
    recipes.require(config.train)
    counts, limit, chosen_engine = _counts(nodes), _hours(deadline), _engine(engine)
    overrides = Overrides(step_seconds, images_per_second, cores, link, latency, within, machine_type, slots)
    prediction_sources.require_one_speed(overrides)
    if make_profile:
        prediction_sources.make_profile(config)
    config = prediction_sources.with_nodes(config, overrides)
    history = prediction_inputs.History(state.for_cluster(config.name))
    rank_step, node_source = prediction_sources.node(config, overrides, history)
    connected, link_source = prediction_links.connection(config, rank_step, overrides, history)
    connected = replace(connected, hierarchical=hierarchical)
    choice = _options(config, rank_step, connected, node_source.precision, chosen_engine)
    predicted = [
        _completed(each, rank_step, config, choice, node_price)
        for each in forecast.forecast(rank_step, connected, counts, choice)
    ]
    has_limit = limit is not None or budget is not None
    if has_limit:
        _require_end_and_price(predicted[-1], config, budget)
    best = forecast.best(predicted, limit, budget) if has_limit else None
    view = prediction_tables.View(config, choice, node_source.text, link_source, has_limit)
    prediction_tables.forecasts(view, predicted, best, json)


def _counts(nodes: str) -> list[int]:
    """Read numbers of nodes."""
    words = [word.strip() for word in nodes.split(",") if word.strip()]
    wrong = [word for word in words if not word.isdecimal() or not 0 < float(word) <= MOST_NODES]
    if wrong or not words:
        problem = f"--nodes: {shown(', '.join(wrong)) if wrong else 'empty'}: expected numbers from 1 to {MOST_NODES:,}"
        raise ConfigError([problem], "write them as 2,4,8,16")
    return sorted({int(word) for word in words})


def _hours(deadline: str | None) -> float | None:
    if deadline is None:
        return None
    read = seconds(deadline)
    if not isinstance(read, float) or read <= 0:
        raise ConfigError([f"--deadline: {deadline!r} is no duration"], "write it as 90m or 2h")
    return read / 3600


def _engine(name: str) -> Engine:
    if name not in ENGINES:
        raise ConfigError([f"--engine: {name!r} is unknown to `predict` (known: {', '.join(ENGINES)})"])
    return ENGINES[name]


def _options(config: Config, rank_step: Node, connected: Connection, precision: str, engine: Engine) -> Options:
    """Return how gradients travel; "auto" takes what is faster, as a run measures it."""
    exchange = recipes.gradient_exchange.settings(config.train)
    launch = recipes.gradient_exchange.launch_options(config.train, config.launch)
    group = launch.fusion_threshold << 20 if launch.fusion_threshold else GROUP
    base = Options(engine=engine, passes=int(exchange["backward_passes_per_step"]), group=group)
    return replace(base, compression=carried(exchange["compression"], precision, rank_step, connected.at(2), base))


def _completed(
    predicted: Forecast, rank_step: Node, config: Config, choice: Options, node_price: float | None
) -> Forecast:
    """Add time and price to the recipe's end, where images and prices are known."""
    recipe, dataset = recipes.recipe(config.train), recipes.datasets()[str(config.train.dataset)]
    if "train" not in dataset:
        return predicted
    epochs = config.train.epochs or int(recipe["epochs"])
    tested = dataset.get("test", 0)
    whole = Recipe(epochs * dataset["train"], epochs * min(tested, config.train.test_samples or tested))
    return forecast.completed(predicted, rank_step, whole, _per_hour(predicted.nodes, config, node_price))


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
