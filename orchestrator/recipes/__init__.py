"""Models and data sets a run can name, and the resolved configuration of a run: recipe, then flags."""

import math

from orchestrator.config import Train
from orchestrator.errors import ConfigError
from orchestrator.recipes import exchange
from orchestrator.recipes.choice import recipe, require
from orchestrator.recipes.shelf import HERE, card, datasets, models, samples
from orchestrator.schema import TrainConfig

__all__ = [
    "HERE",
    "batch_size",
    "card",
    "datasets",
    "exchange",
    "fitting_batch",
    "models",
    "recipe",
    "require",
    "resolve",
    "samples",
    "training_images",
]

SYNTHETIC_IMAGES_PER_SLOT = 512
SMALL_IMAGE = 64  # pixels; below, some networks reduce images less, and have other figures of memory
MEMORY_SHARE = 0.9  # of a node's free memory that a rank may plan with


def training_images(dataset: str, found: int | None, world: int) -> int:
    """Images of the training set: as many as were ``found``, or as are made up for a synthetic one."""
    return SYNTHETIC_IMAGES_PER_SLOT * world if found is None else found


def batch_size(train: Train, images: int, world: int, memory: int | None) -> int:
    """Images per rank and backward pass: as asked for, else the recipe's, or as much of it as a rank can have.

    A rank's share of ``images`` bounds it, and so do ``memory`` bytes (None: as many as are wanted).
    Raises ConfigError where there is no share for every rank, where one asked for more, or where nothing fits.
    """
    passes = exchange.passes(train)
    share, times = images // world // passes, f" x {passes} backward passes" if passes > 1 else ""
    if share < 1:
        problem = f"{train.dataset} has only {images} training {samples(train.dataset)}"
        raise ConfigError([f"launch.np: {world} ranks{times} asked for, {problem}"])
    if (train.batch_size or 0) > share:
        share_of = f"each of {world} ranks{times} has only {share} {samples(train.dataset)}"
        raise ConfigError([f"train.batch_size: {train.batch_size}: {share_of}"])
    if train.batch_size:
        return train.batch_size
    wanted = min(share, int(recipe(train)["batch_size"]))
    return wanted if memory is None else min(wanted, fitting_batch(train, memory))


def fitting_batch(train: Train, memory: int) -> int:
    """How many images ``memory`` bytes per CPU rank can hold. Raises ConfigError where not even one image fits."""
    size = train.image_size or int(recipe(train)["image_size"])
    rank, image = _memory(str(train.model), size)
    fits = int((memory / 2**20 * MEMORY_SHARE - rank) / image)
    if fits < 1:
        needs = f"needs {(rank + image) / MEMORY_SHARE:.0f} MiB, and has {memory >> 20} MiB"
        raise ConfigError(
            [f"train.model: a rank of {train.model} at {size} pixels {needs}"],
            "fewer nodes or slots, or a smaller --image-size; a --batch-size of your own is not checked",
        )
    return fits


def _memory(model: str, size: int) -> tuple[float, float]:
    """MiB of a rank on its own, and of an image of so many pixels: a network may treat small ones otherwise."""
    said = card(model)
    cost = said.get("small_memory", said["memory"]) if size < SMALL_IMAGE else said["memory"]
    return cost["rank"], cost["image"] * (size / cost["image_size"]) ** 2


def resolve(train: Train, run: str, data: str | None, images: int, world: int, threads: int, batch: int) -> TrainConfig:
    """Everything the run depends on. ``data`` is the data set's directory on the nodes, ``images`` its training set.

    A learning rate from the recipe follows the batch size in proportion (Goyal et al. 2017, section 2.1). Where steps
    are asked for and no epochs, there are as many epochs as the steps need.
    """
    model, dataset = require(train)
    found = {key: value for key, value in recipe(train).items() if key not in exchange.OF_LAUNCH}
    found["learning_rate"] *= batch / found["batch_size"]
    given = train.model_dump(exclude_none=True, exclude={"model", "dataset", "data", "recipe", "fp16_allreduce"})
    said = exchange.settings(train)
    if train.steps:
        per_step = world * batch * said["backward_passes_per_step"]
        found["epochs"] = max(found["epochs"], math.ceil(train.steps / max(1, images // per_step)))
    synthetic = images if data is None else 0
    facts = {"run": run, "model": model, "dataset": dataset, "data": data, "threads": threads, "batch_size": batch}
    return TrainConfig(**{**found, **given, **said, **facts, "synthetic_images": synthetic})
