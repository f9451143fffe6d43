"""Configuration of a cell's launches, and the command with which a user repeats one."""

from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from orchestrator import recipes
from orchestrator.config import Config, Launch, Train, explain
from orchestrator.errors import ConfigError
from orchestrator.recipes.select_recipe import ANY_SHAPE
from orchestrator.runs import engines
from orchestrator.schema.studies import Cell
from orchestrator.studies.study_definition import TRAIN_OPTIONS, Study


def of_cell(config: Config, study: Study, cell: Cell) -> Config:
    """Return the configuration of a cell's launches: the cluster's, with the study's sections train and launch.

    Args:
        config: Configuration of the cluster. Its section train is not used: the study alone says what is trained.
        study: The study as it is measured.
        cell: A cell of the study.

    Returns:
        The configuration, as `orchestrator train` takes it.

    Raises:
        ConfigError: Model and data set do not fit, or an option has a wrong value.
    """
    options = {key: value for key, value in cell.options.items() if key in TRAIN_OPTIONS}
    launch = {key: value for key, value in cell.options.items() if key not in options}
    train = {**_what(study, cell), **_until(study), **options, "test_samples": test_samples(study, cell)}
    if study.shrunk and study.shrink.image_size and cell.dataset in ANY_SHAPE:
        train["image_size"] = study.shrink.image_size
    launch_options = {**config.launch.model_dump(exclude_defaults=True), **launch, "np": cell.ranks}
    try:
        what = Train.model_validate({key: value for key, value in train.items() if value is not None})
        how = Launch.model_validate(launch_options)
    except ValidationError as error:
        raise ConfigError([explain(problem, "", [*options, *launch]) for problem in error.errors()]) from None
    recipes.require(what)
    engines.require(what)
    engines.launch_options(what, how)
    return config.model_copy(update={"train": what, "launch": how})


def test_samples(study: Study, cell: Cell) -> Any:
    """Return the number of test samples that a cell's launches evaluate; None for all."""
    return (study.shrunk and study.shrink.test_samples) or cell.options.get("test_samples")


def _what(study: Study, cell: Cell) -> dict[str, Any]:
    data = study.data.get(cell.dataset)
    return {
        "model": cell.model, "dataset": cell.dataset, "data": data, "engine": cell.engine, "batch_size": cell.batch
    }  # fmt: skip


def _until(study: Study) -> dict[str, Any]:
    until = study.until
    goal = None if until.top1 is None else f"top1={until.top1}"
    return {"epochs": until.epochs, "steps": until.steps, "max_time": until.time, "until": goal}


def command(config: Config) -> list[str]:
    """Return the words of `orchestrator train` that start a launch with ``config``."""
    train = config.train.model_dump(mode="json", exclude_unset=True)
    launch = config.launch.model_dump(mode="json", exclude_defaults=True, exclude={"launcher", "parameter_servers"})
    words = ["orchestrator", "train", train.pop("model")]
    if train.get("max_time"):
        train["max_time"] = f"{Decimal(str(train['max_time'])).normalize():f}s"  # never with an exponent
    for key, value in {**train, **launch}.items():
        words += _option(key.replace("_", "-"), value)
    return [*words, "--cluster", config.name]


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [] if value is None else [f"--{name}", str(value)]
