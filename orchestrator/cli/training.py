"""Commands that start a run: our trainer, a script of one's own, the proof of the cluster."""

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import programs, progress, providers, recipes, records, resumption, runs, source, state
from orchestrator.cli import options, output
from orchestrator.cli.options import HELP, ConfigFile, Json, Name, completed, key
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import ConfigError, RunFailed
from orchestrator.errors import command as spell
from orchestrator.launch import Run
from orchestrator.runs import Seen
from orchestrator.schema import Hello
from orchestrator.state import Home

Detach = Annotated[bool, typer.Option("--detach", "-d", help="Start it and return.")]
Np = Annotated[int | None, key("launch.np", "--np")]
Controller = Annotated[str | None, key("launch.controller")]
Interface = Annotated[str | None, key("launch.network_interface")]
CycleTime = Annotated[float | None, key("launch.cycle_time")]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Go on from the newest checkpoint of this run, with its settings; needs no MODEL.",
        autocompletion=options.completion(options.run_names),
    ),
]
LIMITS = ("epochs", "steps", "max_time", "on_damage", "on_nan")  # what may be set anew where a run is resumed
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
    config = options.load(config_file, name, launched(np, controller, network_interface, cycle_time))
    place, cluster, digest = deployed(config)
    run = programs.hello(place, cluster, digest, config)
    finish(place, cluster, run, quiet=True)
    found = Hello.model_validate_json((place.runs / run.id / "hello.json").read_text())
    output.as_json(found) if json else output.hello(found)


def train(
    model: Annotated[str | None, completed(HELP["train.model"], recipes.models)] = None,
    dataset: Annotated[str | None, key("train.dataset", complete=lambda: list(recipes.datasets()))] = None,
    data: Annotated[Path | None, key("train.data")] = None,
    recipe: Annotated[Path | None, key("train.recipe")] = None,
    epochs: Annotated[int | None, key("train.epochs")] = None,
    steps: Annotated[int | None, key("train.steps")] = None,
    max_time: Annotated[str | None, key("train.max_time")] = None,
    batch_size: Annotated[int | None, key("train.batch_size")] = None,
    learning_rate: Annotated[float | None, key("train.learning_rate")] = None,
    image_size: Annotated[int | None, key("train.image_size")] = None,
    seed: Annotated[int | None, key("train.seed")] = None,
    precision: Annotated[str | None, key("train.precision")] = None,
    fp16_allreduce: Annotated[bool | None, key("train.fp16_allreduce", "--fp16-allreduce/--no-fp16-allreduce")] = None,
    checkpoint_every: Annotated[str | None, key("train.checkpoint_every")] = None,
    keep_checkpoints: Annotated[int | None, key("train.keep_checkpoints")] = None,
    on_damage: Annotated[str | None, key("train.on_damage")] = None,
    on_nan: Annotated[str | None, key("train.on_nan")] = None,
    resume: Resume = None,
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    detach: Detach = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Train MODEL on a data set over the whole cluster."""
    flags = {
        "train.model": model, "train.dataset": dataset, "train.data": data,
        "train.recipe": recipe, "train.epochs": epochs,
        "train.steps": steps, "train.max_time": max_time, "train.batch_size": batch_size,
        "train.learning_rate": learning_rate, "train.image_size": image_size, "train.seed": seed,
        "train.precision": precision, "train.fp16_allreduce": fp16_allreduce,
        "train.checkpoint_every": checkpoint_every, "train.keep_checkpoints": keep_checkpoints,
        "train.on_damage": on_damage, "train.on_nan": on_nan,
        **launched(np, controller, network_interface, cycle_time),
    }  # fmt: skip
    if resume:
        place, cluster, run = _resume(resume, config_file, name, flags)
        return _follow(place, cluster, run, detach, json)
    config = options.load(config_file, name, flags)
    recipes.require(config.train)
    place, cluster, digest = deployed(config)
    run = programs.train(place, cluster, digest, config)
    _follow(place, cluster, run, detach, json)


def _resume(
    name_of_run: str, config_file: Path | None, name: str | None, flags: dict[str, Any]
) -> tuple[Home, Cluster, Run]:
    """Start what continues a run: as it was launched, but for the ``flags`` that may be given."""
    _refuse_beside_resume(name_of_run, flags)
    place, _, _ = options.deployed(config_file, name)
    old = records.get(place, name_of_run)
    resumption.require_training(old, place.name)
    as_before = {f"launch.{key}": getattr(old, key) for key in ("controller", "cycle_time")}
    given = {key: value for key, value in flags.items() if value is not None}
    config = options.load(config_file, name, {**as_before, **given})
    limits = {key: getattr(config.train, key) for key in LIMITS if f"train.{key}" in given}
    launch = config.launch.model_copy(update={"np": flags["launch.np"]})  # not cluster.yaml's: it had its own
    place, cluster, digest = deployed(config)
    return place, cluster, programs.resume(place, cluster, digest, launch, old, limits)


def _refuse_beside_resume(name_of_run: str, flags: dict[str, Any]) -> None:
    """Raises ConfigError with every flag that would change what is trained."""
    may = {f"train.{key}" for key in LIMITS}
    other = [key for key, value in flags.items() if key.startswith("train.") and value is not None and key not in may]
    words = ["MODEL" if key == "train.model" else f"--{key[6:].replace('_', '-')}" for key in other]
    if words:
        problems = [f"{word}: not with --resume: {name_of_run} goes on with what it began with" for word in words]
        limits = ", ".join(f"--{key.replace('_', '-')}" for key in LIMITS)
        raise ConfigError(problems, f"what may be given beside --resume: {limits}, and how it is launched")


def run_script(
    command: Annotated[list[str], typer.Argument(help="python my_script.py --my-flag ...")],
    np: Np = None,
    controller: Controller = None,
    network_interface: Interface = None,
    cycle_time: CycleTime = None,
    detach: Detach = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Run a Horovod script of your own on every rank: `orchestrator run -- python my_script.py --my-flag`."""
    source.locate(command)
    config = options.load(config_file, name, launched(np, controller, network_interface, cycle_time))
    place, cluster, digest = deployed(config)
    run = programs.script(place, cluster, digest, config, command)
    _follow(place, cluster, run, detach, json)


def launched(
    np: int | None, controller: str | None, network_interface: str | None, cycle_time: float | None
) -> dict[str, Any]:
    return {
        "launch.np": np,
        "launch.controller": controller,
        "launch.network_interface": network_interface,
        "launch.cycle_time": cycle_time,
    }


def deployed(config: Config) -> tuple[Home, Cluster, str]:
    """The deployed cluster that ``config`` is for, with the trainer that its nodes must have."""
    place = state.home(config.name)
    record, cluster = state.deployed(place)
    return place, cluster, providers.of(record).trainer_digest(record)


def finish(place: Home, cluster: Cluster, run: Run, quiet: bool) -> Seen:
    """Follow ``run`` to its end and fetch what it left; raises RunFailed where it did not finish.

    A Ctrl-C here leaves it running.
    """
    try:
        output.stream(runs.watch(place, cluster, run), to_stderr=quiet)
        with runs.head_session(place, cluster) as head:
            seen = runs.look(place, head, run)
            records.collect(place, head, run)
    except KeyboardInterrupt:
        progress.note(f"run {run.id} goes on: {follow_up(run, cluster)}")
        raise
    if seen.state != "finished":
        failure = seen.status.failure if seen.status else None
        cause = f"failed: {runs.describe(failure, cluster)}" if failure else f"was {seen.state}"
        hint = f"{spell(f'logs {run.id}', cluster.name)} shows everything"
        if records.is_resumable(place, run):
            hint += f", {spell(f'train --resume {run.id}', cluster.name)} goes on from its newest checkpoint"
        raise RunFailed(f"run {run.id} {cause}", hint)
    return seen


def _follow(place: Home, cluster: Cluster, run: Run, detach: bool, json: bool) -> None:
    """Show what a run that was started gives, or where to look for it."""
    if detach:
        return detached(run, cluster, json)
    output.run(finish(place, cluster, run, quiet=json), place.runs / run.id, json)


def detached(run: Run, cluster: Cluster, json: bool) -> None:
    """Show where to look for a run that goes on by itself."""
    if json:
        return output.as_json(run)
    output.line(run.id)
    progress.note(follow_up(run, cluster))


def follow_up(run: Run, cluster: Cluster) -> str:
    follow, end = spell(f"logs -f {run.id}", cluster.name), spell(f"stop {run.id}", cluster.name)
    return f"{follow} follows it, {end} ends it"
