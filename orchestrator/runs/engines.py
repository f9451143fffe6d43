"""Engines of `train`: what starts each of them, which framework it needs, and which settings it cannot follow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator import recipes
from orchestrator.config import Framework, Launch, Train
from orchestrator.errors import ConfigError
from orchestrator.recipes import gradient_exchange
from orchestrator.schema import TrainConfig

PACKAGE = "engines"  # in orchestrator.trainer
PRECISIONS = ("float32", "bfloat16")
IN_MEMORY = ("mnist", "fashion_mnist", "cifar10", "sdss", "synthetic")
TORCH_MODELS = ("lenet", "resnet20", "resnet50", "resnet101", "mobilenet_v2")


@dataclass(frozen=True)
class Engine:
    """Requirements of an engine.

    Attributes:
        launcher: What starts its ranks.
        frameworks: Frameworks of nodes that have what it imports. PyTorch's begin with weights that TensorFlow draws.
        models: Networks that it has; all if empty.
        compressions: Types that its gradients can travel as.
    """

    launcher: str
    frameworks: tuple[Framework, ...] = ("tensorflow", "both")
    models: tuple[str, ...] = ()
    compressions: tuple[str, ...] = ("none",)


ENGINES: dict[str, Engine] = {
    "ours": Engine("horovod"),
    "horovod-tensorflow": Engine("horovod", compressions=("none", "fp16")),
    "horovod-torch": Engine("horovod", ("both",), TORCH_MODELS, ("none", "fp16")),
    "torch-ddp": Engine("torchrun", ("both",), TORCH_MODELS),
    "ray-torch": Engine("ray", ("both",), TORCH_MODELS),
    "tensorflow-multiworker": Engine("tensorflow"),
    "tensorflow-parameter-server": Engine("tensorflow"),
    "single": Engine("plain"),
}


def of(train: Train) -> Engine:
    """Return the engine of ``train``."""
    return ENGINES[train.engine]


def program(train: Train) -> str:
    """Return the engine's module in orchestrator.trainer."""
    return "train" if train.engine == "ours" else f"{PACKAGE}.{train.engine.replace('-', '_')}"


def launch_options(train: Train, launch: Launch) -> Launch:
    """Return ``launch`` with the launcher of the engine, and what the engine fixes: one rank, a parameter server.

    Raises:
        ConfigError: The engine cannot have as many ranks.
    """
    changes: dict[str, Any] = {"launcher": of(train).launcher, "parameter_servers": None}
    if train.engine == "single":
        if launch.np not in (None, 1):
            raise ConfigError([f"launch.np: {launch.np}: engine single is one process"], "--np 1, or another --engine")
        changes["np"] = 1
    if train.engine == "tensorflow-parameter-server":
        changes["parameter_servers"] = launch.parameter_servers or 1
    return launch.model_copy(update=changes)


def of_run(options: Launch) -> dict[str, Any]:
    """Return the launcher as keys of a run's record."""
    return {"launcher": options.launcher, "parameter_servers": options.parameter_servers or 0}


def require(train: Train) -> None:
    """Raise ConfigError with every setting that the engine of ``train`` does not support; engine ours supports all."""
    if train.engine == "ours":
        return
    settings = _settings(train)
    problems = [
        f"train.{key}: {_shown(settings[key])}: engine {train.engine} takes {what}"
        for key, (fits, what) in _limits(train).items()
        if not fits(settings[key])
    ]
    if problems:
        raise ConfigError(problems, "change these settings for all engines that are compared, or --engine ours")


def resolved(train: Train, config: TrainConfig) -> TrainConfig:
    """Return ``config`` with the values that an engine uses for "auto" and None."""
    if train.engine == "ours":
        return config
    compression = "none" if config.compression == "auto" else config.compression
    return config.model_copy(update={"compression": compression, "hierarchical": False, "xla": False})


Limit = tuple[Callable[[Any], bool], str]


def _limits(train: Train) -> Mapping[str, Limit]:
    """Return the values that an engine other than ours supports, by key: as a test, and in words."""
    engine = of(train)
    compressions, models = ("auto", *engine.compressions), engine.models
    return {
        "model": (lambda model: not models or model in models, ", ".join(models)),
        "dataset": (lambda dataset: dataset in IN_MEMORY, f"{', '.join(IN_MEMORY)}: what fits into memory"),
        "augment": (lambda augment: not augment, "images as they are: --no-augment"),
        "precision": (lambda precision: precision in PRECISIONS, f"--precision {' or '.join(PRECISIONS)}"),
        "compression": (lambda kind: kind in compressions, f"--compression {' or '.join(engine.compressions)}"),
        "hierarchical": (lambda first: not first, "no --hierarchical"),
        "optimizer": (lambda optimizer: optimizer == "sgd", "sgd alone"),
        "clip_norm": (lambda norm: norm is None, "no clipping"),
        "xla": (lambda xla: not xla, "no --xla"),
        "backward_passes_per_step": (lambda passes: passes == 1, "one pass per step"),
        "gradient_predivide_factor": (lambda factor: factor == 1, "no such factor"),
        "adasum": (lambda adasum: not adasum, "the mean alone"),
        "max_time": (lambda seconds: seconds is None, "--epochs and --steps alone"),
        "checkpoint_every": (lambda seconds: seconds is None, "no checkpoints"),
        "save_model": (lambda save: not save, "no --save-model: it writes its weights to weights.npz"),
        "on_bad_sample": (lambda what: what == "stop", "--on-bad-sample stop alone"),
        "on_nan": (lambda what: what == "stop", "--on-nan stop alone"),
    }


def _settings(train: Train) -> dict[str, Any]:
    """Return the settings of a run: TrainConfig's defaults, recipes, then the user's."""
    defaults = {key: field.default for key, field in TrainConfig.model_fields.items() if not field.is_required()}
    user_settings = train.model_dump(exclude_none=True)
    return {**defaults, **recipes.recipe(train), **user_settings, **gradient_exchange.settings(train)}


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
