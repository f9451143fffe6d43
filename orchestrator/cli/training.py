"""Commands that start programs of the trainer: the check of the cluster, and training."""

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import recipes
from orchestrator.cli import check_table, chosen_cluster, follow_run, launch_options, options, shell_completion
from orchestrator.cli.launch_options import Autotune, Controller, CycleTime, Detach, Env, EnvFile, Fusion, Interface, Np
from orchestrator.cli.options import HELP, ConfigFile, Json, Name, completed, key
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError
from orchestrator.runs import check as runs_check
from orchestrator.runs import engines, jobs, resumed_run_config, store, user_variables
from orchestrator.runs.jobs import resumed_training
from orchestrator.runs.run_record import Run
from orchestrator.schema import CheckResult
from orchestrator.state import StateDir

Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Continue this run from its newest checkpoint, with its settings; leave out MODEL.",
        autocompletion=shell_completion.runs,
    ),
]
AS_BEFORE = ("controller", "cycle_time", "fusion_threshold", "autotune")  # kept when a run is resumed, unless given
# May be changed when a run is resumed.
LIMITS = ("epochs", "steps", "until", "max_time", "save_model", "on_bad_sample", "on_nan")
ALLOWED_WITH_RESUME = (*LIMITS, "data")  # where the data is on this machine, in case the cluster no longer has it


def register(app: typer.Typer) -> None:
    app.command()(check)
    app.command()(train)


def check(
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Check the health of every node, then the result and the speed of an allreduce over all ranks."""
    config = chosen_cluster.load_config(config_file, name, options.settings(locals()))
    state_dir, cluster, digest = launch_options.deployed(config)
    shown = follow_run.show_file(runs_check.MEASURED, CheckResult, check_table.check)
    follow_run.follow(
        state_dir, cluster, runs_check.start(state_dir, cluster, digest, config.launch), json, shown, quiet=True
    )


def train(
    model: Annotated[str | None, completed(HELP["train.model"], recipes.models)] = None,
    dataset: Annotated[str | None, key("train.dataset", complete=lambda: list(recipes.datasets()))] = None,
    data: Annotated[Path | None, key("train.data")] = None,
    recipe: Annotated[Path | None, key("train.recipe")] = None,
    epochs: Annotated[int | None, key("train.epochs")] = None,
    steps: Annotated[int | None, key("train.steps")] = None,
    until: Annotated[str | None, key("train.until")] = None,
    max_time: Annotated[str | None, key("train.max_time")] = None,
    test_samples: Annotated[int | None, key("train.test_samples")] = None,
    batch_size: Annotated[int | None, key("train.batch_size")] = None,
    learning_rate: Annotated[float | None, key("train.learning_rate")] = None,
    image_size: Annotated[int | None, key("train.image_size")] = None,
    augment: Annotated[bool | None, key("train.augment", "--augment/--no-augment")] = None,
    engine: Annotated[str | None, key("train.engine", complete=lambda: list(engines.ENGINES))] = None,
    seed: Annotated[int | None, key("train.seed")] = None,
    precision: Annotated[str | None, key("train.precision")] = None,
    xla: Annotated[bool | None, key("train.xla", "--xla/--no-xla")] = None,
    backward_passes_per_step: Annotated[int | None, key("train.backward_passes_per_step")] = None,
    compression: Annotated[str | None, key("train.compression")] = None,
    hierarchical: Annotated[bool | None, key("train.hierarchical", "--hierarchical/--no-hierarchical")] = None,
    fp16_allreduce: Annotated[bool | None, key("train.fp16_allreduce", "--fp16-allreduce/--no-fp16-allreduce")] = None,
    gradient_predivide_factor: Annotated[float | None, key("train.gradient_predivide_factor")] = None,
    adasum: Annotated[bool | None, key("train.adasum", "--adasum/--no-adasum")] = None,
    checkpoint_every: Annotated[str | None, key("train.checkpoint_every")] = None,
    keep_checkpoints: Annotated[int | None, key("train.keep_checkpoints")] = None,
    save_model: Annotated[bool | None, key("train.save_model", "--save-model/--no-save-model")] = None,
    on_bad_sample: Annotated[str | None, key("train.on_bad_sample")] = None,
    on_nan: Annotated[str | None, key("train.on_nan")] = None,
    resume: Resume = None,
    env: Env = None,
    env_file: EnvFile = None,
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    fusion_threshold: Fusion = None,
    autotune: Autotune = None,
    detach: Detach = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Train MODEL on a data set over the whole cluster."""
    flags = options.settings(locals())
    environment = user_variables.read(env or [], env_file or [])
    if resume is not None:
        state_dir, cluster, run = _resume(resume, config_file, name, flags, environment)
        return follow_run.follow(state_dir, cluster, run, json, detach=detach)
    config = chosen_cluster.load_config(config_file, name, flags)
    recipes.require(config.train)
    engines.require(config.train)
    state_dir, cluster, digest = launch_options.deployed_for_trainer(config)
    run = jobs.train(state_dir, cluster, digest, config, environment=environment)
    follow_run.follow(state_dir, cluster, run, json, detach=detach)


def _resume(
    name_of_run: str,
    config_file: Path | None,
    name: str | None,
    flags: dict[str, Any],
    environment: user_variables.UserEnvironment,
) -> tuple[StateDir, Cluster, Run]:
    """Start a run that continues another, launched as that one was except for the permitted ``flags``."""
    _refuse_with_resume(name_of_run, flags)
    state_dir, _, _ = chosen_cluster.deployed(config_file, name)
    old = store.get(state_dir, name_of_run)
    resumed_run_config.require_training(old, state_dir.name)
    as_before = {f"launch.{key}": getattr(old, key) for key in AS_BEFORE}
    chosen = {key: value for key, value in flags.items() if value is not None}
    config = chosen_cluster.load_config(config_file, name, {**as_before, **chosen})
    limits = {key: getattr(config.train, key) for key in LIMITS if f"train.{key}" in chosen}
    launch = config.launch.model_copy(update={"np": flags["launch.np"]})  # not cluster.yaml's: the run had its own
    state_dir, cluster, digest = launch_options.deployed_for_trainer(config)
    config = config.model_copy(update={"launch": launch})
    return state_dir, cluster, resumed_training.resume(state_dir, cluster, digest, config, old, limits, environment)


def _refuse_with_resume(name_of_run: str, flags: dict[str, Any]) -> None:
    """Refuse flags that would change what is trained.

    Raises:
        ConfigError: It names every such flag.
    """
    may = {f"train.{key}" for key in ALLOWED_WITH_RESUME}
    other = [key for key, value in flags.items() if key.startswith("train.") and value is not None and key not in may]
    words = ["MODEL" if key == "train.model" else f"--{key[6:].replace('_', '-')}" for key in other]
    if words:
        problems = [f"{word}: not with --resume: {name_of_run} keeps its settings" for word in words]
        options = ", ".join(f"--{key.replace('_', '-')}" for key in ALLOWED_WITH_RESUME)
        raise ConfigError(problems, f"with --resume you can change {options}, and launch options such as --np")
