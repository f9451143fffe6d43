"""Selection of a compatible model and data set, and their recipes: the model's, overridden by the user's own."""

from typing import Any

from orchestrator.config import Train, nearest
from orchestrator.errors import ConfigError
from orchestrator.recipes import validate_recipe
from orchestrator.recipes.builtin_recipes import card, datasets, models

ANY_SHAPE = ("synthetic", "imagenet")  # image size and classes of all other data sets are fixed
# Constants of an optimizer that a user's recipe chooses instead of the model's. SGD: momentum of all recipes here;
# RMSProp: those of Keras; Adam: beta 1 and beta 2 of Kingma and Ba 2015, with the epsilon of Keras.
CONSTANTS: dict[str, dict[str, float]] = {
    "sgd": {"momentum": 0.9},
    "rmsprop": {"momentum": 0.0, "rho": 0.9, "epsilon": 1e-7},
    "adam": {"momentum": 0.9, "rho": 0.999, "epsilon": 1e-7},
}


def require(train: Train) -> tuple[str, str]:
    """Return the model and the data set of ``train``.

    Raises:
        ConfigError: Holds every problem: model or data set is missing or unknown, they are incompatible, the image size
            is wrong or too small, or the user's recipe cannot be used.
    """
    problems = []
    for key, value, valid in (("model", train.model, models()), ("dataset", train.dataset, list(datasets()))):
        if value is None:
            problems.append(f"train.{key}: missing; one of {', '.join(valid)}")
        elif value not in valid:
            problems.append(f"train.{key}: {value!r} is unknown{nearest(value, valid)} (known: {', '.join(valid)})")
    try:
        problems += _misfits(train, str(train.model), str(train.dataset)) if not problems else []
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return str(train.model), str(train.dataset)


def recipe(train: Train) -> dict[str, Any]:
    """Return the recipe for the data set of ``train``: keys of TrainConfig and of Launch."""
    return _merged(train, *require(train))


def require_classes(train: Train, found: int) -> None:
    """Raise ConfigError if the data set in train.data has more classes, ``found``, than the recipe."""
    classes = recipe(train)["classes"]
    if found > classes:
        problem = f"{train.recipe}: classes: {classes}: {train.data} has images of {found} classes"
        raise ConfigError([problem], f"set classes: {found} in {train.recipe}, or name another --data DIR")


def _misfits(train: Train, model: str, dataset: str) -> list[str]:
    """Return why the model cannot be trained on the data set."""
    table, has = bool(card(model).get("table")), datasets()[dataset]
    if table != bool(has.get("table")):
        suitable = ", ".join(name for name in models() if bool(card(name).get("table")) != table)
        learns, are = ("tables", "images") if table else ("images", "a table")
        return [f"train.model: {model} needs {learns}, {dataset} is {are}: use {suitable}"]
    return _wrong_shape(train, has, _merged(train, model, dataset)) or _too_small(train, model, dataset)


def _wrong_shape(train: Train, has: dict[str, Any], shapes: dict[str, Any]) -> list[str]:
    """Return image sizes and classes that were asked for and differ from those of the data set, if these are fixed."""
    if train.dataset in ANY_SHAPE:
        return []
    size, changed = has["image_size"], [key for key in ("image_size", "classes") if shapes[key] != has[key]]
    problems = [f"{train.recipe}: {key}: {shapes[key]}: {train.dataset} has {has[key]}" for key in changed]
    if train.image_size not in (None, size):
        whose = f"images of {train.dataset} have {size} pixels" if size > 1 else f"{train.dataset} is a table"
        problems.append(f"train.image_size: {train.image_size}: {whose}")
    return problems


def _too_small(train: Train, model: str, dataset: str) -> list[str]:
    size, least = train.image_size or _merged(train, model, dataset)["image_size"], card(model)["minimum_size"]
    setting = (
        f"train.image_size: {size}" if train.image_size else f"train.dataset: images of {dataset} have {size} pixels"
    )
    return [] if size >= least else [f"{setting}: {model} needs at least {least}"]


def _merged(train: Train, model: str, dataset: str) -> dict[str, Any]:
    """Merge the model's recipe for all data sets, its recipe for this one, then the user's recipe likewise.

    If the user's recipe sets a batch size and no learning rate, the model's rate is scaled as for a flag. If it sets
    another optimizer, the constants of the model's own do not apply: RMSProp's momentum is not Adam's beta 1.
    """
    shape = {key: datasets()[dataset][key] for key in ("classes", "image_size", "channels")}
    merged = {**shape, **card(model)["common"], **card(model).get(dataset, {})}
    if train.recipe:
        sections = validate_recipe.user_recipe(train.recipe, list(datasets()))
        own = {**sections.get("common", {}), **sections.get(dataset, {})}
        merged["learning_rate"] *= own.get("batch_size", merged["batch_size"]) / merged["batch_size"]
        optimizer = merged.get("optimizer", "sgd")
        if own.get("optimizer", optimizer) != optimizer:
            merged |= CONSTANTS[own["optimizer"]]
        merged |= own
    return merged
