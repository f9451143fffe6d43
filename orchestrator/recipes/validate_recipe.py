"""Validation of a user's own recipe."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model

from orchestrator.config import expanded, explain, yaml_documents
from orchestrator.config.section import MAX_CYCLE, MAX_FUSION, MOST, Number, Section
from orchestrator.errors import ConfigError
from orchestrator.schema import Compression, Optimizer, Precision, Schedule
from orchestrator.schema.bounded_files import Unreadable

Share = Annotated[Number, Field(ge=0, le=1)]
Below1 = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class Settings(Section):
    """Keys of a recipe: of TrainConfig, and of Launch for how Horovod sends. Each may be left out.

    The defaults here are never used: a key that the recipe leaves out is taken from the model's recipe or TrainConfig.
    """

    image_size: int = Field(224, ge=8, le=1024)
    classes: int = Field(1000, ge=2, le=100_000)
    augment: bool = False
    shift: int = Field(4, ge=0, le=1024)
    flip: bool = True
    epochs: int = Field(1, ge=1, le=MOST)
    batch_size: int = Field(1, ge=1, le=MOST)
    precision: Precision = "auto"
    optimizer: Optimizer = "sgd"
    learning_rate: Positive = 0.1
    momentum: Below1 = 0.9
    nesterov: bool = False
    rho: Below1 = 0.9
    epsilon: Positive = 1e-7
    clip_norm: Positive | None = None
    weight_decay: float = Field(0.0, ge=0)
    label_smoothing: Below1 = 0.0
    warmup_epochs: float = Field(0.0, ge=0)
    schedule: Schedule = "step"
    milestones: list[Share] = Field([])
    decay: Annotated[float, Field(gt=0, le=1)] = 0.94
    decay_epochs: Positive = 2.0
    power: Positive = 0.5
    backward_passes_per_step: int = Field(1, ge=1, le=10_000)
    compression: Compression = "auto"
    hierarchical: bool | None = None
    gradient_predivide_factor: Positive = 1.0
    adasum: bool = False
    cycle_time: float = Field(5.0, ge=0, le=MAX_CYCLE)
    fusion_threshold: int = Field(32, ge=0, le=MAX_FUSION)
    autotune: bool = False


def user_recipe(path: Path, datasets: list[str]) -> dict[str, dict[str, Any]]:
    """Return the sections of the recipe in the file ``path``: "common" for all data sets, and single data sets.

    Raises:
        ConfigError: The file cannot be read, or its content is wrong. It holds every problem.
    """
    try:
        values = yaml_documents.read(expanded("train.recipe", path))
    except FileNotFoundError as error:
        raise ConfigError([f"train.recipe: {path}: {error.strerror}"], "correct the path") from None
    except Unreadable as error:
        raise ConfigError([f"train.recipe: {error}"], f"correct {path}") from None
    sections = ["common", *datasets]
    form = create_model("Recipe", __base__=Section, **dict.fromkeys(sections, (Settings, Settings())))  # type: ignore[call-overload]
    try:
        recipe = form.model_validate({} if values is None else values)
    except ValidationError as error:
        valid_keys = [*sections, *(f"{section}.{key}" for section in sections for key in Settings.model_fields)]
        raise ConfigError([explain(e, f"{path}: ", valid_keys) for e in error.errors()]) from None
    return dict(recipe.model_dump(exclude_unset=True))
