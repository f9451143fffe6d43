"""Options of the commands for studies, the directory that they name, and the study that they change."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import shell_completion
from orchestrator.config.paths import expanded
from orchestrator.errors import ConfigError, command
from orchestrator.studies import journal, resumable_study, study_files
from orchestrator.studies.study_definition import Study
from orchestrator.studies.study_sections import MOST_LAUNCHES, Repetitions

FOLDER = "-study"  # after the study's name
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE|NAME",
        help="Study file, or the name of an included study.",
        autocompletion=shell_completion.among(study_files.names),
    ),
]
Started = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR|NAME", help="Directory or name of the study; default: the only one in the working directory."
    ),
]
Where = Annotated[
    Path | None, typer.Option("--directory", file_okay=False, help="Directory of the study; default: ./NAME-study.")
]
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
    bool | None,
    typer.Option(
        "--deploy/--no-deploy",
        help="Grow and shrink the cluster to the number of nodes of a cell; default: as the study was started, else"
        " --deploy.",
    ),
]


def named(source: str | None) -> str:
    """Return the study that a command names. Raises ConfigError if it names none."""
    if source is None:
        raise ConfigError(["study: name a file, or an included study"], "`orchestrator study list` lists them")
    return source


def resumed(source: str | None, directory: Path | None) -> Path:
    """Return the directory of the study to continue: ``directory`` if given, which must hold the study ``source``."""
    if directory is None:
        return directory_of(source)
    name = resumable_study.load(directory).name
    if source is not None and not _is_of(source, directory, name):
        problem = f"study {source} --resume: {directory} holds another study, {name!r}"
        raise ConfigError([problem], f"{journal.resume_command(directory)} continues it")
    return directory


def _is_of(source: str, directory: Path, name: str) -> bool:
    """Tell whether ``source`` names ``directory`` or the study ``name`` in it, or is a file of this study."""
    named = {Path(path).resolve() for path in (source, f"{source}{FOLDER}")}
    if source == name or directory.resolve() in named:
        return True
    is_study = source in study_files.names() or Path(source).is_file()
    return is_study and study_files.find(source).name == name


def directory_of(source: str | None, form: str = "study {} --resume") -> Path:
    """Return the directory of a study that was started.

    It is ``source`` itself, else the directory named after it or after the study in this file, or without ``source``
    the only one in the working directory. ``form`` is the command that names it, for a hint.
    """
    if source is not None:
        return _named_directory(source, form.format(source))
    paths = sorted(path.parent for path in Path().glob(f"*{FOLDER}/{journal.STUDY}"))
    if len(paths) == 1:
        return paths[0]
    some, remedy = "no study is here", "`orchestrator study FILE` starts one"
    if paths:
        some = f"{len(paths)} studies are here: {', '.join(map(str, paths))}"
        remedy = f"name one: {command(form.format(shlex.quote(str(paths[0]))))}"
    raise ConfigError([f"{form.format('DIR')}: {some}"], remedy)


def _named_directory(source: str, command_line: str) -> Path:
    """Return the directory of the study that ``source`` names. Raises ConfigError if nothing has this name."""
    path, folder = Path(source), Path(f"{source}{FOLDER}")
    named = [directory for directory in (path, folder) if (directory / journal.STUDY).is_file()]
    named += [path] if path.is_dir() else []  # reading it reports what is missing
    if not named and source not in study_files.names() and not path.is_file():
        problem = f"{command_line}: neither {path} nor {folder} is in the working directory"
        raise ConfigError([problem], "change to the directory in which you started the study")
    return named[0] if named else Path(f"{study_files.find(source).name}{FOLDER}")


def changes(shrink: bool, rounds: int | None, data: Iterable[str]) -> dict[str, Any]:
    """Return the changes that options make to a study.

    Args:
        shrink: Whether it runs in its smaller form.
        rounds: Number of launches of each cell; None for the study's own.
        data: Words DATASET=DIR.

    Returns:
        Values by key of the study.

    Raises:
        ConfigError: A word is of another form.
    """
    made: dict[str, Any] = {"shrunk": True} if shrink else {}
    if rounds:
        made["repetitions"] = Repetitions(at_least=rounds, at_most=rounds)
    pairs = [word.partition("=") for word in data]
    wrong = [name for name, sign, path in pairs if not (name and sign and path)]
    if wrong:
        raise ConfigError([f"--data: {wrong[0]}: expected DATASET=DIR, as in mnist=/data/mnist"])
    return {**made, "data": {name: expanded("--data", Path(path)).absolute() for name, _, path in pairs}}


def changed(study: Study, changes: dict[str, Any]) -> Study:
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
