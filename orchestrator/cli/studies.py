"""Commands of studies: run one, follow it, begin a file of one's own."""

import json as json_module
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from orchestrator import progress
from orchestrator.cli import launching, options, output, study_report, study_tables
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.config import Config
from orchestrator.errors import ConfigError, command
from orchestrator.studies import estimate, files, journal, queued, runner
from orchestrator.studies.model import Repetitions, Study

FOLDER = "-study"  # after the study's name
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE|NAME",
        help="Study file, or the name of an included study.",
        autocompletion=options.completion(files.names),
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
    typer.Option("--rounds", min=1, help="Number of launches of each cell, instead of the study's `repetitions`."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show cells, order, time and cost; start nothing.")]
Detached = Annotated[
    bool, typer.Option("--detach", "-d", help="Let the head make the launches, and return; this machine may be off.")
]
Deploys = Annotated[
    bool, typer.Option("--deploy/--no-deploy", help="Grow and shrink the cluster to the number of nodes of a cell.")
]


class _RunByDefault(TyperGroup):
    """Group in which `study FILE` means `study run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if not args or args[0] in own else ["run", *args])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete commands, and the names of studies."""
        found = super().shell_complete(ctx, incomplete)
        kind = type(found[0]) if found else None
        return found + [kind(name) for name in files.names() if kind and name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    study = typer.Typer(
        cls=_RunByDefault,
        help="Compare networks, settings, nodes or engines: `study FILE` runs a study.",
        no_args_is_help=True,
    )
    for action in (run, status, init):
        study.command()(action)
    study.command(name="list")(list_studies)
    study.command()(schema)
    study.command()(study_report.report)
    app.add_typer(study, name="study")


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
    config = options.load(config_file, name, {})
    changes = _changes(shrink, rounds, data or [])
    if resume:
        directory = directory or _directory(source)
        study = _changed(journal.load(directory), changes)
    else:
        study = _changed(files.find(_named(source)), changes)
        directory = directory or Path(f"{study.name}{FOLDER}")
    cells = runner.cells(config, study.measured())
    if detach:
        runner.require_no_deploys(study.measured(), deploys)
    if dry_run:
        planned = estimate.plan(config, study.measured(), cells, directory, deploys)
        return output.as_json(planned) if json else study_tables.plan(planned, config.currency)
    if resume:
        journal.save(directory, study)
    else:
        journal.create(directory, study)
    if detach:
        return _detach(config, directory, deploys, json)
    _run(config, directory, deploys, json)


def _run(config: Config, directory: Path, deploys: bool, json: bool) -> None:
    sitting = runner.run(config, directory, launching.deployed_for_trainer, deploys)
    study, launches = journal.load(directory).measured(), journal.read(directory)
    rows = estimate.rows(study, runner.cells(config, study), launches)
    if json:
        return output.as_json({"directory": directory, "cells": rows, "sitting": sitting, "overhead": sitting.overhead})
    study_tables.results(rows)
    for cell, problem in sitting.given_up.items():
        output.line(f"given up: {cell}: {problem}")
    own = sum(launch.seconds for launch in sitting.launches)
    output.line(
        f"{len(sitting.launches)} launches in {sitting.seconds:.0f} s, {own:.0f} s of them their own:"
        f" the study added {sitting.overhead:.1%}"
    )
    output.line(f"study: {directory}")


def _named(source: str | None) -> str:
    if source is None:
        raise ConfigError(["study: name a file, or a study that ships"], "`orchestrator study list` lists them")
    return source


def _directory(source: str | None) -> Path:
    """Return the directory of the study to go on with: ``source`` itself, or that of its name, or the only one here."""
    if source is not None:
        here = Path(source)
        return here if (here / journal.STUDY).is_file() else Path(f"{files.find(source).name}{FOLDER}")
    found = sorted(path.parent for path in Path().glob(f"*{FOLDER}/{journal.STUDY}"))
    if len(found) != 1:
        some = f"{len(found)} studies are here: {', '.join(map(str, found))}" if found else "no study is here"
        raise ConfigError(
            [f"study --resume: {some}"], "name one: `orchestrator study NAME --resume`, or --directory DIR"
        )
    return found[0]


def _changes(shrink: bool, rounds: int | None, data: Iterable[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {"shrunk": True} if shrink else {}
    if rounds:
        changes["repetitions"] = Repetitions(at_least=rounds, at_most=rounds)
    pairs = [word.partition("=") for word in data]
    wrong = [name for name, sign, path in pairs if not (name and sign and path)]
    if wrong:
        raise ConfigError([f"--data: {wrong[0]}: expected DATASET=DIR, as in mnist=/data/mnist"])
    return {**changes, "data": {name: Path(path).absolute() for name, _, path in pairs}}


def _changed(study: Study, changes: dict[str, Any]) -> Study:
    """Return the study with what was given on the command line; --rounds holds for shrunk studies too."""
    changes = {**changes, "data": {**study.data, **changes["data"]}}
    if "repetitions" in changes:
        changes["shrink"] = study.shrink.model_copy(update={"repetitions": None})
    return study.model_copy(update=changes)


def _detach(config: Config, directory: Path, deploys: bool, json: bool) -> None:
    """Let the head make the launches that are certain, and print how to go on."""
    queue = runner.detach(config, directory, launching.deployed_for_trainer, deploys)
    if json:
        return output.as_json({"directory": directory, "queue": queue})
    output.line(str(directory))
    progress.note(
        f"queue {queue.queue} on the head makes {queued.counted(queue.launches)}, also while this machine is off:"
        f" `orchestrator study status {directory}` shows how far it is,"
        f" `orchestrator study {directory} --resume` collects them and goes on,"
        f" {command(f'stop {queue.queue}', queue.cluster)} ends it"
    )


def status(
    directory: Annotated[
        Path | None, typer.Argument(help="Directory of the study; default: the only one in this directory.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what a study has measured so far, and whether it is running."""
    directory = directory or _directory(None)
    study, launches = journal.load(directory).measured(), journal.read(directory)
    report = estimate.status(study, launches, journal.runner(directory), queued.read_progress(directory))
    output.as_json(report) if json else study_tables.status(report)


def init(
    path: Annotated[Path, typer.Argument(help="Path of the file to write.")] = Path("study.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write an example of a study file, with every key and its meaning."""
    if path.exists() and not force:
        raise ConfigError([f"{path} is there already"], "--force replaces it")
    try:
        path.write_text(files.EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"], "name a file in a directory that is there") from error
    progress.note(f"wrote {path}; `orchestrator study {path} --dry-run` shows what it launches")


def list_studies(json: Json = False) -> None:
    """List the included studies, which repeat tables of papers."""
    studies = [files.find(name) for name in files.names()]
    if json:
        return output.as_json(
            [{"name": one.name, "cells": one.size, "description": one.description} for one in studies]
        )
    output.table(("study", "description"), [(one.name, " ".join(one.description.split())) for one in studies])


def schema() -> None:
    """Print the JSON schema of study files, for editors."""
    print(json_module.dumps(Study.model_json_schema(), indent=2))
