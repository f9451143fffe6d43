"""The command that runs a study, starts it on the head, or shows what it would do."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import progress, state
from orchestrator.cli import chosen_cluster, launch_options, options, output, study_tables
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.config import Config
from orchestrator.config.paths import expanded
from orchestrator.errors import ConfigError, RunFailed, command
from orchestrator.schema.studies import Cell
from orchestrator.studies import (
    detached_launches,
    journal,
    matrix,
    resumable_study,
    status,
    study_checks,
    study_files,
    study_runner,
    time_and_cost,
)
from orchestrator.studies.status import Row
from orchestrator.studies.study_definition import MOST_LAUNCHES, Repetitions, Study
from orchestrator.studies.study_runner import Sitting

FOLDER = "-study"  # after the study's name
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE|NAME",
        help="Study file, or the name of an included study.",
        autocompletion=options.completion(study_files.names),
    ),
]
Started = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR|NAME", help="Directory or name of the study; default: the only one in the working directory."
    ),
]
Where = Annotated[Path | None, typer.Option("--directory", help="Directory of the study; default: ./NAME-study.")]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="DATASET=DIR", help="Directory of a data set, as in mnist=data/mnist; may be repeated."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the study in its directory, as it was started.")]
Shrunk = Annotated[bool, typer.Option("--shrink", help="Run a smaller form of the study, as its key `shrink` says.")]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds",
        min=1,
        max=MOST_LAUNCHES,
        help="Number of launches of each cell, instead of the study's `repetitions`.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show cells, order, time and cost; start nothing.")]
Detached = Annotated[
    bool, typer.Option("--detach", "-d", help="Let the head make the launches, and return; this machine may be off.")
]
Deploys = Annotated[
    bool, typer.Option("--deploy/--no-deploy", help="Grow and shrink the cluster to the number of nodes of a cell.")
]


def run(
    source: Source = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    directory: Where = None,
    shrink: Shrunk = False,
    rounds: Rounds = None,
    data: Data = None,
    deploys: Deploys = True,
    detach: Detached = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Run a study; `orchestrator study FILE` does the same. --resume continues one."""
    changes = _changes(shrink, rounds, data or [])
    resumed = (directory or directory_of(source)) if resume else None
    cluster_name = resumable_study.read_cluster(resumed) if resumed and name is None else name
    config = chosen_cluster.load_config(config_file, cluster_name, {})
    study = _changed(resumable_study.load(resumed) if resumed else study_files.find(_named(source)), changes)
    directory = resumed or directory or Path(f"{study.name}{FOLDER}")
    cells = _launchable(config, study.measured(), deploys, detach, dry_run)
    if dry_run:
        planned = time_and_cost.plan(config, study.measured(), cells, directory, deploys)
        return output.as_json(planned) if json else study_tables.plan(planned, config.currency)
    if not resume:
        resumable_study.create(directory, study)
        resumable_study.write_cluster(directory, config.name)
    if detach:
        return _detach(config, directory, study, deploys, json)
    _run(config, directory, study, deploys, json)


def _launchable(config: Config, study: Study, deploys: bool, detach: bool, dry_run: bool) -> list[Cell]:
    """Return the cells of a study that can start; a dry run needs no cluster, but fits the one that is deployed."""
    cells = study_checks.cells(config, study)
    if detach:
        study_checks.require_no_deploys(study, deploys)
    study_checks.require_data(study)
    record = state.read(state.for_cluster(config.name))
    if not dry_run or (record and record.cluster):
        study_checks.require_room(config, study, cells, launch_options.deployed_for_trainer, deploys)
    return cells


def _run(config: Config, directory: Path, study: Study, deploys: bool, json: bool) -> None:
    sitting = study_runner.run(config, directory, study, launch_options.deployed_for_trainer, deploys)
    study, launches = study.measured(), journal.read(directory)
    rows = status.rows(study, study_checks.cells(config, study), launches)
    if json:
        output.as_json({"directory": directory, "cells": rows, "sitting": sitting, "overhead": sitting.overhead})
    else:
        _show(directory, study, rows, sitting)
    _require_measurements(directory, rows, sitting)


def _require_measurements(directory: Path, rows: Sequence[Row], sitting: Sitting) -> None:
    """Check that no cell was given up. Raises RunFailed."""
    if sitting.given_up:
        what = "some cells were given up" if any(row.launches for row in rows) else "nothing was measured"
        problem = next(iter(sitting.given_up.values()))
        remedy = f"repair the cause; {journal.resume_command(directory)} then tries the cells again"
        raise RunFailed(f"{directory}: {what}: {problem}", remedy)


def _show(directory: Path, study: Study, rows: Sequence[Row], sitting: Sitting) -> None:
    study_tables.shared(matrix.shared_options(study))
    study_tables.results(rows)
    study_tables.given_up(sitting.given_up)
    launch_seconds = sum(launch.seconds for launch in sitting.launches)
    output.line(
        f"{len(sitting.launches)} launches in {sitting.seconds:.0f} s, {launch_seconds:.0f} s of them their own:"
        f" the study added {sitting.overhead:.1%}"
    )
    output.line(f"study: {directory}")


def _named(source: str | None) -> str:
    if source is None:
        raise ConfigError(["study: name a file, or a study that ships"], "`orchestrator study list` lists them")
    return source


def directory_of(source: str | None, form: str = "study {} --resume") -> Path:
    """Return the directory of a study that was started.

    It is ``source`` itself, else the directory named after it or after the study in this file, or without ``source``
    the only one in the working directory. ``form`` is the command that names it, for a hint.
    """
    if source is not None:
        named = [path for path in (Path(source), Path(f"{source}{FOLDER}")) if (path / journal.STUDY).is_file()]
        named += [Path(source)] if Path(source).is_dir() else []  # reading it reports what is missing
        return named[0] if named else Path(f"{study_files.find(source).name}{FOLDER}")
    paths = sorted(path.parent for path in Path().glob(f"*{FOLDER}/{journal.STUDY}"))
    if len(paths) != 1:
        some = f"{len(paths)} studies are here: {', '.join(map(str, paths))}" if paths else "no study is here"
        remedy = f"name one: {command(form.format(paths[0]))}" if paths else "`orchestrator study FILE` starts one"
        raise ConfigError([f"{form.format('DIR')}: {some}"], remedy)
    return paths[0]


def _changes(shrink: bool, rounds: int | None, data: Iterable[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {"shrunk": True} if shrink else {}
    if rounds:
        changes["repetitions"] = Repetitions(at_least=rounds, at_most=rounds)
    pairs = [word.partition("=") for word in data]
    wrong = [name for name, sign, path in pairs if not (name and sign and path)]
    if wrong:
        raise ConfigError([f"--data: {wrong[0]}: expected DATASET=DIR, as in mnist=/data/mnist"])
    return {**changes, "data": {name: expanded("--data", Path(path)).absolute() for name, _, path in pairs}}


def _changed(study: Study, changes: dict[str, Any]) -> Study:
    """Return the study with the changes of the command line; --rounds also applies to shrunk studies.

    Relative paths of data are those of the directory in which the study starts, also when it is resumed from another.
    """
    named = {name: expanded("data", path).absolute() for name, path in study.data.items()}
    changes = {**changes, "data": {**named, **changes["data"]}}
    if "repetitions" in changes:
        changes["shrink"] = study.shrink.model_copy(update={"repetitions": None})
    changed = study.model_copy(update=changes)
    if wrong := changed.wrong_data():
        raise ConfigError([f"--{problem}" for problem in wrong])
    return changed


def _detach(config: Config, directory: Path, study: Study, deploys: bool, json: bool) -> None:
    """Start the certain launches on the head, and print the commands that follow, collect and stop them."""
    queue = study_runner.detach(config, directory, study, launch_options.deployed_for_trainer, deploys)
    if json:
        return output.as_json({"directory": directory, "queue": queue})
    output.line(str(directory))
    progress.note(
        f"queue {queue.queue} on the head makes {detached_launches.counted(queue.launches)}, also while this machine"
        f" is off: {journal.status_command(directory)} shows how far it is,"
        f" {journal.resume_command(directory)} collects them and continues the study,"
        f" {command(f'stop {queue.queue}', queue.cluster)} ends it"
    )
