"""Commands about runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import programs, progress, providers, recipes, runs, state
from orchestrator.cli import options, output
from orchestrator.cli.options import ConfigFile, Json, Name, completed, key
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import RunFailed, StateError
from orchestrator.launch import Run
from orchestrator.runs import Seen
from orchestrator.schema import Hello, Results
from orchestrator.state import Home

Detach = Annotated[bool, typer.Option("--detach", "-d", help="Start it and return.")]
Np = Annotated[int | None, key("launch.np", "--np")]
Controller = Annotated[str | None, key("launch.controller")]
Interface = Annotated[str | None, key("launch.network_interface")]
CycleTime = Annotated[float | None, key("launch.cycle_time")]
RunName = Annotated[str | None, completed("Which run; default: the newest.", options.run_names)]
ON_TERMINAL = {"allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    for command in (check, train, logs, stop, list_runs, results):
        app.command(name="runs" if command is list_runs else None)(command)
    app.command(name="run", context_settings=ON_TERMINAL)(run_script)


def check(config_file: ConfigFile = None, name: Name = None, controller: Controller = None, json: Json = False) -> None:
    """Prove the cluster: health of every node, then an allreduce over all ranks, by value and by speed."""
    config, place, cluster, digest = _cluster(config_file, name, launch__controller=controller)
    run = programs.hello(place, cluster, digest, config)
    seen, directory = _finish(place, cluster, run, quiet=True)
    _require_finished(cluster, seen)
    found = Hello.model_validate_json((directory / "hello.json").read_text())
    output.as_json(found) if json else output.hello(found)


def train(
    model: Annotated[str | None, completed("What to train: resnet20, resnet50 or resnet101.", recipes.models)] = None,
    dataset: Annotated[str | None, key("train.dataset", complete=lambda: list(recipes.datasets()))] = None,
    data: Annotated[Path | None, key("train.data")] = None,
    epochs: Annotated[int | None, key("train.epochs")] = None,
    steps: Annotated[int | None, key("train.steps")] = None,
    max_time: Annotated[str | None, key("train.max_time")] = None,
    batch_size: Annotated[int | None, key("train.batch_size")] = None,
    learning_rate: Annotated[float | None, key("train.learning_rate")] = None,
    image_size: Annotated[int | None, key("train.image_size")] = None,
    seed: Annotated[int | None, key("train.seed")] = None,
    precision: Annotated[str | None, key("train.precision")] = None,
    fp16_allreduce: Annotated[bool | None, key("train.fp16_allreduce", "--fp16-allreduce/--no-fp16-allreduce")] = None,
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
        "model": model, "dataset": dataset, "data": data, "epochs": epochs, "steps": steps, "max_time": max_time,
        "batch_size": batch_size, "learning_rate": learning_rate, "image_size": image_size, "seed": seed,
        "precision": precision, "fp16_allreduce": fp16_allreduce,
    }  # fmt: skip
    launch = {"np": np, "controller": controller, "network_interface": network_interface, "cycle_time": cycle_time}
    keys = {f"train__{key}": value for key, value in flags.items()} | {f"launch__{key}": v for key, v in launch.items()}
    recipes.require(options.load(config_file, name, **keys).train)
    config, place, cluster, digest = _cluster(config_file, name, **keys)
    run = programs.train(place, cluster, digest, config)
    if detach:
        return _detached(run, json)
    seen, directory = _finish(place, cluster, run, quiet=json)
    _require_finished(cluster, seen)
    found = Results.model_validate_json((directory / "results.json").read_text())
    output.as_json(found) if json else output.results(found)


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
    programs.locate(command)
    config, place, cluster, digest = _cluster(
        config_file,
        name,
        launch__np=np,
        launch__controller=controller,
        launch__network_interface=network_interface,
        launch__cycle_time=cycle_time,
    )
    run = programs.script(place, cluster, digest, config, command)
    if detach:
        return _detached(run, json)
    seen, directory = _finish(place, cluster, run, quiet=json)
    _require_finished(cluster, seen)
    output.as_json(seen) if json else progress.note(f"run {run.id} finished; its files are in {directory}")


def logs(
    run: RunName = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    config_file: ConfigFile = None,
    name: Name = None,
) -> None:
    """Print what a run has written."""
    place = options.place(config_file, name)
    chosen = runs.get(place, run)
    kept = place.runs / chosen.id / "log"
    if runs.is_collected(place, chosen):
        return output.stream([kept.read_bytes()])
    _, cluster = state.deployed(place)
    with runs.head_session(place, cluster) as head:
        output.stream(runs.follow(head, chosen) if follow else runs.log(head, chosen))


def stop(run: RunName = None, config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """Stop a run; no process of it stays on any node."""
    place, _, cluster = options.deployed(config_file, name)
    chosen = runs.get(place, run)
    with runs.head_session(place, cluster) as head:
        if runs.look(place, head, chosen).state == "running":
            with progress.step(f"Stopping {chosen.id}"):
                runs.stop(head, chosen)
        with progress.step("Saving what it left"):
            runs.collect(place, head, chosen)
        seen = runs.look(place, head, chosen)
    if seen.state == "lost":
        runs.sweep(place, cluster, chosen)
    output.as_json(seen) if json else output.line(f"run {chosen.id}: {seen.state}")


def list_runs(config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """List the cluster's runs, also after it is gone."""
    place = options.place(config_file, name)
    record = state.read(place)
    seen = runs.overview(place, record.cluster if record else None)
    if json:
        return output.as_json([{**s.run.model_dump(), "state": s.state, "status": s.status} for s in seen])
    output.runs_table(seen) if seen else output.line(f"cluster {place.name}: no runs yet")


def results(run: RunName = None, config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """Show what a run gave: its configuration and every epoch."""
    place = options.place(config_file, name)
    chosen = runs.get(place, run)
    record = state.read(place)
    if record and record.cluster and not runs.is_collected(place, chosen):
        with runs.head_session(place, record.cluster) as head:
            runs.collect(place, head, chosen)
    path = place.runs / chosen.id / "results.json"
    if not path.exists():
        raise StateError(f"run {chosen.id} has no results", f"`orchestrator logs {chosen.id}` shows what it wrote")
    found = Results.model_validate_json(path.read_text())
    output.as_json(found) if json else output.results(found)


def _cluster(path: Path | None, name: str | None, **flags: Any) -> tuple[Config, Home, Cluster, str]:
    """The Config with ``flags``, and the deployed cluster it is for, with the trainer that its nodes must have."""
    config = options.load(path, name, **flags)
    place = state.home(config.name)
    record, cluster = state.deployed(place)
    provider = providers.get(record.config["provider"])
    return config, place, cluster, provider.trainer_digest(Config.model_validate(record.config))


def _finish(place: Home, cluster: Cluster, run: Run, quiet: bool) -> tuple[Seen, Path]:
    """Follow ``run`` to its end and fetch what it left. A Ctrl-C here leaves it running."""
    try:
        with runs.head_session(place, cluster) as head:
            output.stream(runs.follow(head, run), to_stderr=quiet)
        with runs.head_session(place, cluster) as head:
            seen = runs.look(place, head, run)
            return seen, runs.collect(place, head, run)
    except KeyboardInterrupt:
        progress.note(
            f"run {run.id} goes on: `orchestrator logs -f {run.id}` follows it, `orchestrator stop {run.id}` ends it"
        )
        raise


def _require_finished(cluster: Cluster, seen: Seen) -> None:
    """Raise RunFailed with the first thing that went wrong, where the run did not finish."""
    if seen.state == "finished":
        return
    failure = seen.status.failure if seen.status else None
    hint = f"`orchestrator logs {seen.run.id}` shows everything"
    if failure is None:
        raise RunFailed(f"run {seen.run.id} was {seen.state}", hint)
    raise RunFailed(f"run {seen.run.id} failed: {runs.describe(failure, cluster)}", hint)


def _detached(run: Run, json: bool) -> None:
    if json:
        return output.as_json(run)
    output.line(run.id)
    progress.note(f"`orchestrator logs -f {run.id}` follows it, `orchestrator stop {run.id}` ends it")
