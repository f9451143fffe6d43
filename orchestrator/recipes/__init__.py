"""Models and data sets that a run can name, and the configuration of a run, resolved from recipes and flags."""

import math

from orchestrator.config import Train
from orchestrator.errors import ConfigError
from orchestrator.recipes import gradient_exchange
from orchestrator.recipes.builtin_recipes import DIRECTORY, card, datasets, models, samples
from orchestrator.recipes.select_recipe import recipe, require, require_classes
from orchestrator.schema import SMALL_IMAGE, TrainConfig

__all__ = ["DIRECTORY", "card", "datasets", "models", "recipe", "require", "require_classes", "samples"]

SYNTHETIC_IMAGES_PER_SLOT = 512

MEMORY_SHARE = 0.9  # share of the free memory that a rank plans to use


def training_images(dataset: str, count: int | None, world: int) -> int:
    """Return the number of training images.

    Args:
        dataset: Name of the data set.
        count: Images in the data set, or None for synthetic data.
        world: Number of ranks.

    Returns:
        ``count``, or as many as are generated for a synthetic data set.
    """
    return SYNTHETIC_IMAGES_PER_SLOT * world if count is None else count


def batch_size(train: Train, images: int, world: int, memory: int | None) -> int:
    """Return the number of images per rank and backward pass.

    Args:
        train: Settings of the run; ``train.batch_size`` wins if it is set.
        images: Images of the training set. A rank's share of them limits the batch.
        world: Number of ranks.
        memory: Bytes available to a rank; they limit the recipe's batch size. None for no limit.

    Returns:
        The size asked for, else the recipe's, reduced to what a rank can hold.

    Raises:
        ConfigError: There are fewer images than ranks, more were asked for than a rank's share, or no image fits in
            memory.
    """
    passes = gradient_exchange.passes(train)
    share, times = images // world // passes, f" x {passes} backward passes" if passes > 1 else ""
    if share < 1:
        problem = f"{train.dataset} has only {images} training {samples(train.dataset)}"
        raise ConfigError([f"launch.np: {world} ranks{times} asked for, {problem}"])
    if (train.batch_size or 0) > share:
        share_of = f"each of {world} ranks{times} has only {share} {samples(train.dataset)}"
        raise ConfigError([f"train.batch_size: {train.batch_size}: {share_of}"])
    if train.batch_size:
        return train.batch_size
    batch = min(share, int(recipe(train)["batch_size"]))
    return batch if memory is None else min(batch, fitting_batch(train, memory))


def fitting_batch(train: Train, memory: int) -> int:
    """Return how many images fit in ``memory`` bytes of a CPU rank. Raise ConfigError if not even one image fits."""
    size = train.image_size or int(recipe(train)["image_size"])
    rank, image = _memory(str(train.model), size)
    fits = int((memory / 2**20 * MEMORY_SHARE - rank) / image)
    if fits < 1:
        needs = f"needs {(rank + image) / MEMORY_SHARE:.0f} MiB, and has {memory >> 20} MiB"
        raise ConfigError(
            [f"train.model: a rank of {train.model} at {size} pixels {needs}"],
            "use fewer nodes or slots, or a smaller --image-size; a --batch-size that you set is not checked",
        )
    return fits


def _memory(model: str, size: int) -> tuple[float, float]:
    """Return MiB of a rank without images, and of one image of ``size`` pixels; small images may differ."""
    of_model = card(model)
    cost = of_model.get("small_memory", of_model["memory"]) if size < SMALL_IMAGE else of_model["memory"]
    return cost["rank"], cost["image"] * (size / cost["image_size"]) ** 2


def resolve(train: Train, run: str, data: str | None, images: int, world: int, threads: int, batch: int) -> TrainConfig:
    """Return the configuration of a run: the recipe's values, overridden by the user's settings.

    A learning rate from the recipe is scaled in proportion to the batch size (Goyal et al. 2017, section 2.1). If steps
    are set and epochs are not, there are as many epochs as the steps need.

    Args:
        train: Settings of the run.
        run: Name of the run.
        data: Directory of the data set on the nodes, or None for synthetic data.
        images: Images of the training set.
        world: Number of ranks.
        threads: Threads per rank.
        batch: Images per rank and backward pass, from :func:`batch_size`.

    Returns:
        Everything that the run depends on.

    Raises:
        ConfigError: The model, the data set or the user's recipe cannot be used.
    """
    model, dataset = require(train)
    settings = {key: value for key, value in recipe(train).items() if key not in gradient_exchange.OF_LAUNCH}
    settings["learning_rate"] *= batch / settings["batch_size"]
    options = train.model_dump(exclude_none=True, exclude={"model", "dataset", "data", "recipe", "fp16_allreduce"})
    exchange = gradient_exchange.settings(train)
    if train.steps:
        per_step = world * batch * exchange["backward_passes_per_step"]
        settings["epochs"] = max(settings["epochs"], math.ceil(train.steps / max(1, images // per_step)))
    synthetic = images if data is None else 0
    facts = {"run": run, "model": model, "dataset": dataset, "data": data, "threads": threads, "batch_size": batch}
    return TrainConfig(**{**settings, **options, **exchange, **facts, "synthetic_images": synthetic})


def endless_warm_up(config: TrainConfig) -> str:
    """Describe a warm-up that takes all epochs of ``config``, so that the schedule never begins; empty if it ends.

    Nothing can be learned of synthetic data, whatever the learning rate.
    """
    if config.dataset == "synthetic" or config.warmup_epochs < config.epochs:
        return ""
    problem = f"the warm-up of {config.warmup_epochs:g} epochs takes the whole run: the learning rate never falls"
    return f"{problem}; pass more --epochs, or set warmup_epochs in the file of --recipe"
