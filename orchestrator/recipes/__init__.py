"""Models and data sets a run can name, and the resolved configuration of a run: recipe, then flags."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from orchestrator.config import Train, nearest
from orchestrator.errors import ConfigError
from orchestrator.schema import TrainConfig

HERE = Path(__file__).parent
DATASETS = "datasets"
SYNTHETIC_IMAGES_PER_SLOT = 512
FIXED_SIZE = ("mnist", "fashion_mnist", "cifar10", "sdss")
MEMORY_SHARE = 0.9  # of a node's free memory that a rank may plan with


@cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((HERE / f"{name}.yaml").read_text())
    return content


def models() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.yaml") if path.stem != DATASETS)


def datasets() -> dict[str, dict[str, Any]]:
    """By name: classes, image_size and channels; of a table (``table`` is true) the channels are its features.

    For what can be downloaded also site and files (name -> SHA-256), for what cannot what it ``needs`` instead.
    """
    return _read(DATASETS)


def samples(dataset: str | None) -> str:
    """What the samples of ``dataset`` are called."""
    return "rows" if datasets().get(dataset or "", {}).get("table") else "images"


def require(train: Train) -> tuple[str, str]:
    """The model and the data set of ``train``. Raises ConfigError where one is missing, unknown, or of another size."""
    problems = []
    for key, value, known in (("model", train.model, models()), ("dataset", train.dataset, list(datasets()))):
        if value is None:
            problems.append(f"train.{key}: missing; one of {', '.join(known)}")
        elif value not in known:
            problems.append(f"train.{key}: {value!r} is unknown{nearest(value, known)} (known: {', '.join(known)})")
    fixed = datasets()[train.dataset]["image_size"] if train.dataset in FIXED_SIZE else None
    if fixed and train.image_size not in (None, fixed):
        table = f"{train.dataset} is a table"
        size = table if samples(train.dataset) == "rows" else f"images of {train.dataset} have {fixed} pixels"
        problems.append(f"train.image_size: {train.image_size}: {size}")
    if problems:
        raise ConfigError(problems)
    return str(train.model), str(train.dataset)


def recipe(train: Train) -> dict[str, Any]:
    """What the model's recipe says for the data set: keys of TrainConfig."""
    model, dataset = require(train)
    shape = {key: datasets()[dataset][key] for key in ("classes", "image_size", "channels")}
    return {**shape, **_read(model)["common"], **_read(model).get(dataset, {})}


def training_images(dataset: str, found: int | None, world: int) -> int:
    """Images of the training set: as many as were ``found``, or as are made up for a synthetic one."""
    return SYNTHETIC_IMAGES_PER_SLOT * world if found is None else found


def batch_size(train: Train, images: int, world: int, memory: int | None) -> int:
    """Images per rank and step: as asked for, else the recipe's, or as much of it as a rank can have.

    A rank's share of ``images`` bounds it, and so do ``memory`` bytes (None: as many as are wanted).
    Raises ConfigError where there is no share for every rank, where one asked for more, or where nothing fits.
    """
    share = images // world
    if share < 1:
        problem = f"{train.dataset} has only {images} training {samples(train.dataset)}"
        raise ConfigError([f"launch.np: {world} ranks asked for, {problem}"])
    if (train.batch_size or 0) > share:
        share_of = f"each of {world} ranks has only {share} {samples(train.dataset)}"
        raise ConfigError([f"train.batch_size: {train.batch_size}: {share_of}"])
    if train.batch_size:
        return train.batch_size
    wanted = min(share, int(recipe(train)["batch_size"]))
    return wanted if memory is None else min(wanted, fitting_batch(train, memory))


def fitting_batch(train: Train, memory: int) -> int:
    """How many images ``memory`` bytes per CPU rank can hold. Raises ConfigError where not even one image fits."""
    model, _ = require(train)
    cost, found = _read(model)["memory"], recipe(train)
    size = train.image_size or found["image_size"]
    room = memory / 2**20 * MEMORY_SHARE - cost["rank"]
    fits = int(room / (cost["image"] * (size / cost["image_size"]) ** 2))
    if fits < 1:
        needed = (cost["rank"] + cost["image"] * (size / cost["image_size"]) ** 2) / MEMORY_SHARE
        raise ConfigError(
            [f"train.model: a rank of {model} at {size} pixels needs {needed:.0f} MiB, and has {memory >> 20} MiB"],
            "fewer nodes or slots, or a smaller --image-size; a --batch-size of your own is not checked",
        )
    return fits


def resolve(train: Train, run: str, data: str | None, images: int, world: int, threads: int, batch: int) -> TrainConfig:
    """Everything the run depends on. ``data`` is the data set's directory on the nodes, ``images`` its training set.

    A learning rate from the recipe follows the batch size in proportion (Goyal et al. 2017, section 2.1). Where steps
    are asked for and no epochs, there are as many epochs as the steps need.
    """
    model, dataset = require(train)
    found = recipe(train)
    found["learning_rate"] *= batch / found["batch_size"]
    given = train.model_dump(exclude_none=True, exclude={"model", "dataset", "data"})
    if train.steps:
        found["epochs"] = max(found["epochs"], math.ceil(train.steps / (images // world // batch)))
    synthetic = images if data is None else 0
    facts = {"run": run, "model": model, "dataset": dataset, "data": data, "threads": threads, "batch_size": batch}
    return TrainConfig(**{**found, **given, **facts, "synthetic_images": synthetic})
