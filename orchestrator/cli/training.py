"""Commands that start a run: the trainer, a user's script, the check of the cluster."""

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import providers, recipes, state
from orchestrator.cli import follow, options, reports
from orchestrator.cli.options import HELP, ConfigFile, Json, Name, completed, key
from orchestrator.cluster import Cluster
from orchestrator.config import Config, stored
from orchestrator.errors import ConfigError, command
from orchestrator.runs import check as runs_check
from orchestrator.runs import engines, jobs, requirements, script, store, user_environment
from orchestrator.runs import resume as runs_resume
from orchestrator.runs.launch import Run
from orchestrator.schema import CheckResult
from orchestrator.state import Record, StateDir

Detach = Annotated[bool, typer.Option("--detach", "-d", help="Start it and return.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the files that would be sent, and start nothing.")]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="Variable for every rank; without a value, the one that it has here. `ps` here shows values: give "
        "passwords without, or by --env-file.",
    ),
]
EnvFile = Annotated[
    list[Path] | None, typer.Option("--env-file", metavar="FILE", help="File with such variables, one on each line.")
]
RequirementsFile = Annotated[
    Path | None,
    typer.Option(
        "--requirements",
        help="Install what this file asks for, instead of requirements.txt or pyproject.toml beside the script.",
    ),
]
Wheels = Annotated[
    Path | None,
    typer.Option("--wheels", help="Install from the wheels in this directory alone."),
]
NoPackages = Annotated[bool, typer.Option("--no-packages", help="Install nothing: use the image's packages alone.")]
Np = Annotated[int | None, key("launch.np", "--np")]
Controller = Annotated[str | None, key("launch.controller")]
Interface = Annotated[str | None, key("launch.network_interface")]
CycleTime = Annotated[float | None, key("launch.cycle_time", "--cycle-time", "--cycle-time-ms")]
Fusion = Annotated[int | None, key("launch.fusion_threshold", "--fusion-threshold", "--fusion-threshold-mb")]
Launcher = Annotated[str | None, key("launch.launcher", "--launcher")]
ParameterServers = Annotated[int | None, key("launch.parameter_servers", "--parameter-servers")]
Autotune = Annotated[bool | None, key("launch.autotune", "--autotune/--no-autotune")]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Go on from the newest checkpoint of this run, with its settings; needs no MODEL.",
        autocompletion=options.completion(options.run_names),
    ),
]
AS_BEFORE = ("controller", "cycle_time", "fusion_threshold", "autotune")  # kept when a run is resumed, unless given
LIMITS = ("epochs", "steps", "until", "max_time", "on_bad_sample", "on_nan")  # may be changed when a run is resumed
BESIDE_RESUME = (*LIMITS, "data")  # where the data is on this machine, in case the cluster no longer has it
WITH_OPTIONS_OF_ITS_OWN = {"allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    app.command()(check)
    app.command()(train)
    app.command(name="run", context_settings=WITH_OPTIONS_OF_ITS_OWN)(run_script)


def check(
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Prove the cluster: health of every node, then an allreduce over all ranks, by value and by speed."""
    config = options.load(config_file, name, launch_options(np, controller, network_interface, cycle_time))
    state_dir, cluster, digest = deployed(config)
    shown = follow.show_file(runs_check.MEASURED, CheckResult, reports.check)
    follow.follow(
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
    fp16_allreduce: Annotated[bool | None, key("train.fp16_allreduce", "--fp16-allreduce/--no-fp16-allreduce")] = None,
    gradient_predivide_factor: Annotated[float | None, key("train.gradient_predivide_factor")] = None,
    adasum: Annotated[bool | None, key("train.adasum", "--adasum/--no-adasum")] = None,
    checkpoint_every: Annotated[str | None, key("train.checkpoint_every")] = None,
    keep_checkpoints: Annotated[int | None, key("train.keep_checkpoints")] = None,
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
    flags = {
        "train.model": model, "train.dataset": dataset, "train.data": data,
        "train.recipe": recipe, "train.epochs": epochs,
        "train.augment": augment, "train.engine": engine,
        "train.steps": steps, "train.until": until, "train.max_time": max_time, "train.batch_size": batch_size,
        "train.learning_rate": learning_rate, "train.image_size": image_size, "train.seed": seed,
        "train.precision": precision, "train.xla": xla,
        "train.fp16_allreduce": fp16_allreduce, "train.compression": compression,
        "train.backward_passes_per_step": backward_passes_per_step, "train.adasum": adasum,
        "train.gradient_predivide_factor": gradient_predivide_factor,
        "train.checkpoint_every": checkpoint_every, "train.keep_checkpoints": keep_checkpoints,
        "train.on_bad_sample": on_bad_sample, "train.on_nan": on_nan,
        **launch_options(np, controller, network_interface, cycle_time, fusion_threshold, autotune),
    }  # fmt: skip
    environment = user_environment.read(env or [], env_file or [])
    if resume:
        state_dir, cluster, run = _resume(resume, config_file, name, flags, environment)
        return follow.follow(state_dir, cluster, run, json, detach=detach)
    config = options.load(config_file, name, flags)
    recipes.require(config.train)
    engines.require(config.train)
    state_dir, cluster, digest = deployed_for_trainer(config)
    run = jobs.train(state_dir, cluster, digest, config, environment=environment)
    follow.follow(state_dir, cluster, run, json, detach=detach)


def _resume(
    name_of_run: str,
    config_file: Path | None,
    name: str | None,
    flags: dict[str, Any],
    environment: user_environment.UserEnvironment,
) -> tuple[StateDir, Cluster, Run]:
    """Start a run that continues another, launched as that one was except for the permitted ``flags``."""
    _refuse_beside_resume(name_of_run, flags)
    state_dir, _, _ = options.deployed(config_file, name)
    old = store.get(state_dir, name_of_run)
    runs_resume.require_training(old, state_dir.name)
    as_before = {f"launch.{key}": getattr(old, key) for key in AS_BEFORE}
    chosen = {key: value for key, value in flags.items() if value is not None}
    config = options.load(config_file, name, {**as_before, **chosen})
    limits = {key: getattr(config.train, key) for key in LIMITS if f"train.{key}" in chosen}
    launch = config.launch.model_copy(update={"np": flags["launch.np"]})  # not cluster.yaml's: the run had its own
    state_dir, cluster, digest = deployed_for_trainer(config)
    config = config.model_copy(update={"launch": launch})
    return state_dir, cluster, jobs.resume(state_dir, cluster, digest, config, old, limits, environment)


def _refuse_beside_resume(name_of_run: str, flags: dict[str, Any]) -> None:
    """Refuse flags that would change what is trained.

    Raises:
        ConfigError: It names every such flag.
    """
    may = {f"train.{key}" for key in BESIDE_RESUME}
    other = [key for key, value in flags.items() if key.startswith("train.") and value is not None and key not in may]
    words = ["MODEL" if key == "train.model" else f"--{key[6:].replace('_', '-')}" for key in other]
    if words:
        problems = [f"{word}: not with --resume: {name_of_run} goes on with what it began with" for word in words]
        options = ", ".join(f"--{key.replace('_', '-')}" for key in BESIDE_RESUME)
        raise ConfigError(problems, f"what may be given beside --resume: {options}, and how it is launched")


def run_script(
    command: Annotated[list[str], typer.Argument(help="python my_script.py --my-flag ...")],
    launcher: Launcher = None,
    parameter_servers: ParameterServers = None,
    env: Env = None,
    env_file: EnvFile = None,
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    fusion_threshold: Fusion = None,
    autotune: Autotune = None,
    detach: Detach = False,
    dry_run: DryRun = False,
    requirements_file: RequirementsFile = None,
    wheels: Wheels = None,
    no_packages: NoPackages = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Run a script of your own on every rank: `orchestrator run -- python my_script.py --my-flag`."""
    environment = user_environment.read(env or [], env_file or [])
    secret = [*([config_file] if config_file else []), *environment.files]
    wanted = None if no_packages else requirements.find(command, requirements_file, wheels, *secret)
    if dry_run:
        return reports.source(script.gather(command, *secret), json, wanted)
    script.locate(command)
    flags = launch_options(np, controller, network_interface, cycle_time, fusion_threshold, autotune)
    flags |= {"launch.launcher": launcher, "launch.parameter_servers": parameter_servers}
    config = options.load(config_file, name, flags)
    state_dir, cluster, digest = deployed(config)
    run = jobs.script(state_dir, cluster, digest, config, command, config_file, environment, wanted)
    follow.follow(state_dir, cluster, run, json, detach=detach)


def launch_options(
    np: int | None,
    controller: str | None,
    network_interface: str | None,
    cycle_time: float | None,
    fusion_threshold: int | None = None,
    autotune: bool | None = None,
) -> dict[str, Any]:
    """Return the launch options by key, as :func:`options.load` takes them; None for options that were not given.

    Args:
        np: Number of ranks.
        controller: Horovod's controller, gloo or mpi.
        network_interface: Interface that Horovod uses.
        cycle_time: Horovod's cycle time, milliseconds.
        fusion_threshold: Horovod's fusion threshold, MiB.
        autotune: Whether Horovod tunes cycle time and threshold.

    Returns:
        Values by key.
    """
    return {
        "launch.np": np,
        "launch.controller": controller,
        "launch.network_interface": network_interface,
        "launch.cycle_time": cycle_time,
        "launch.fusion_threshold": fusion_threshold,
        "launch.autotune": autotune,
    }


def deployed_for_trainer(config: Config) -> tuple[StateDir, Cluster, str]:
    """Return what :func:`deployed` returns. Raises ConfigError if the nodes lack the engine's framework."""
    state_dir, record, cluster = _recorded(config)
    framework, needed = stored(record.config).framework, engines.of(config.train).frameworks
    if framework not in needed:
        who = "the trainer" if config.train.engine == "ours" else f"engine {config.train.engine}"
        raise ConfigError(
            [f"framework: the nodes of cluster {config.name!r} have {framework}, {who} needs {needed[0]}"],
            f"{command(f'deploy --framework {needed[0]}', config.name)} changes them;"
            f" {command('run', config.name)} runs scripts of your own with {framework}",
        )
    return state_dir, cluster, providers.of(record).trainer_digest(record)


def deployed(config: Config) -> tuple[StateDir, Cluster, str]:
    """Return the cluster of ``config``, its state directory, and the digest of the trainer that its nodes must have."""
    state_dir, record, cluster = _recorded(config)
    return state_dir, cluster, providers.of(record).trainer_digest(record)


def _recorded(config: Config) -> tuple[StateDir, Record, Cluster]:
    state_dir = state.for_cluster(config.name)
    return state_dir, *state.deployed(state_dir)
