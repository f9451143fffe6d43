"""Settings of the gradient exchange from flags and recipes, and the combinations that Horovod does not support."""

from collections.abc import Mapping
from typing import Any

from orchestrator.config import Launch, Train
from orchestrator.errors import ConfigError
from orchestrator.recipes.select_recipe import recipe
from orchestrator.schema import TrainConfig

KEYS = ("backward_passes_per_step", "compression", "hierarchical", "gradient_predivide_factor", "adasum")
# Milliseconds. Our trainer begins a cycle when it has gradients; a longer one only costs ranks less that compute.
CYCLE_TIME = 25.0
OF_LAUNCH = ("cycle_time", "fusion_threshold", "autotune")  # keys of recipes that are not keys of TrainConfig


def settings(train: Train) -> dict[str, Any]:
    """Return the KEYS of TrainConfig from flags, else from recipes, else their defaults.

    Raises:
        ConfigError: As :func:`orchestrator.recipes.select_recipe.recipe` does.
    """
    options = {key: value for key in KEYS if (value := getattr(train, key)) is not None}
    older = {"compression": "fp16"} if train.fp16_allreduce else {}
    defaults = {key: TrainConfig.model_fields[key].default for key in KEYS} | {"compression": "auto"}
    return {key: {**defaults, **recipe(train), **older, **options}[key] for key in KEYS}


def passes(train: Train) -> int:
    """Return the number of backward passes per step."""
    return int(settings(train)["backward_passes_per_step"])


def with_recipe(train: Train, launch: Launch) -> Launch:
    """Return ``launch`` with its unset keys of OF_LAUNCH taken from the recipes."""
    of_recipe = recipe(train)
    open_keys = {key: of_recipe[key] for key in OF_LAUNCH if key in of_recipe and getattr(launch, key) is None}
    return launch.model_copy(update=open_keys)


def launch_options(train: Train, launch: Launch) -> Launch:
    """Return ``launch`` as a run takes it, with what :func:`with_recipe` takes from the recipes.

    For our trainer the default of ``cycle_time`` is CYCLE_TIME, except with Adasum, for which the controller "auto"
    becomes MPI.
    """
    adasum = settings(train)["adasum"]
    by_mpi = launch.controller == "auto" and adasum
    options = with_recipe(train, launch).model_copy(update={"controller": "mpi"} if by_mpi else {})
    if train.engine != "ours" or adasum or options.autotune or options.cycle_time is not None:
        return options
    return options.model_copy(update={"cycle_time": CYCLE_TIME})


def require(exchange: Mapping[str, Any], controller: str, ranks: int, nodes: int | None) -> None:
    """Raise ConfigError if the KEYS in ``exchange`` do not fit each other or the launch of the run.

    Args:
        exchange: Values of KEYS.
        controller: Controller of the run: gloo or mpi.
        ranks: Number of ranks.
        nodes: Number of nodes of a cluster with GPUs, else None. With GPUs, Horovod takes the mean within each node and
            Adasum between nodes, else Adasum between ranks. Each of its rounds combines pairs.

    Raises:
        ConfigError: Adasum is used with a setting that Horovod does not support, or with a number that is no power of
            two; or means within nodes come first and are not computed, or not in 16 bits.
    """
    _require_means_in_16_bits(exchange)
    if not exchange["adasum"]:
        return
    number, what = (ranks, "ranks") if nodes is None else (nodes, "nodes with GPUs")
    problems = []
    if controller != "mpi":
        problems.append(f"launch.controller: {controller}: Horovod supports Adasum only with mpi")
    if number & (number - 1):
        problems.append(f"train.adasum: {number} {what}: Horovod's Adasum needs 1, 2, 4, 8 or another power of two")
    if exchange["compression"] == "bf16":
        problems.append("train.compression: bf16: not with Adasum, which Horovod computes in 32 bits or fp16")
    if exchange["gradient_predivide_factor"] != 1:
        factor = exchange["gradient_predivide_factor"]
        problems.append(f"train.gradient_predivide_factor: {factor:g}: not with Adasum, which computes no mean")
    if problems:
        fewer = 1 << (number.bit_length() - 1)
        raise ConfigError(problems, f"--no-adasum, or --controller mpi on {fewer} {what} without the others")


def _require_means_in_16_bits(exchange: Mapping[str, Any]) -> None:
    other = "train.adasum: true" if exchange["adasum"] else "train.compression: none"
    if exchange["hierarchical"] and (exchange["adasum"] or exchange["compression"] == "none"):
        problem = f"train.hierarchical: true: not with {other}: ranks compute only means in 16 bits within nodes first"
        raise ConfigError([problem], "--no-hierarchical, or --compression bf16 without Adasum")
