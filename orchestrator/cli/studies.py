"""Commands of studies: follow one, begin a file of one's own, list those that are included."""

import json as json_module
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from orchestrator import progress
from orchestrator.cli import help_pages, output, study_options, study_report, study_run, study_tables
from orchestrator.cli.options import Json
from orchestrator.config import nearest, output_file
from orchestrator.config.paths import exists
from orchestrator.errors import ConfigError, command
from orchestrator.schema import FileName
from orchestrator.studies import detached_launches, journal, resumable_study, study_files
from orchestrator.studies.status import summarise
from orchestrator.studies.study_definition import Study


class _RunByDefault(help_pages.Group):
    """Group in which `study FILE` means `study run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = {*self.commands, *ctx.help_option_names}
        if not args or args[0] in names:
            return super().parse_args(ctx, args)
        self._refuse_mistyped_command(ctx, args[0])
        return super().parse_args(ctx, ["run", *args])

    def _refuse_mistyped_command(self, ctx: Any, word: str) -> None:
        near = nearest(word, list(self.commands)) if word.isalpha() else ""
        known = word in study_files.names() or any(map(exists, (Path(word), Path(f"{word}{study_options.FOLDER}"))))
        if near and not known and not ctx.resilient_parsing:
            ctx.fail(f"No such command or study {word!r}{near}")

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete commands, and the names of studies."""
        item = type(super().shell_complete(ctx, "")[0])  # where Typer has this class depends on its version
        names = (name for name in study_files.names() if name.startswith(incomplete))
        return [*super().shell_complete(ctx, incomplete), *map(item, names)]


def register(app: typer.Typer) -> None:
    study = help_pages.Commands(
        cls=_RunByDefault,
        help="Compare networks, settings, nodes or engines: `study FILE` runs a study.",
        no_args_is_help=True,
    )
    for action in (study_run.run, status, init):
        study.command()(action)
    study.command(name="list")(list_studies)
    study.command()(schema)
    study.command()(study_report.report)
    app.add_typer(study, name="study")


def status(source: study_options.Started = None, json: Json = False) -> None:
    """Show what a study has measured so far, and whether it is running."""
    directory = study_options.directory_of(source, "study status {}")
    study, launches = resumable_study.load(directory).measured(), journal.read(directory)
    report = summarise(study, launches, journal.runner(directory), detached_launches.read_progress(directory))
    output.as_json(report) if json else study_tables.status(report, directory)


def init(
    path: Annotated[Path, typer.Argument(help="Path of the file to write.")] = Path("example.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write an example of a study file, with every key and its meaning."""
    output_file.create(study_files.example(_named_after(path)).encode(), path, force)
    progress.note(f"wrote {path}; {command(f'study {shlex.quote(str(path))} --dry-run')} shows what it launches")


def _named_after(path: Path) -> str:
    """Return the name of the study in a new file, for `study NAME`. Raises ConfigError."""
    try:
        return TypeAdapter(FileName).validate_python(path.stem)
    except ValidationError:
        problem = f"{path}: the study gets the file's name, and {path.stem!r} is none for a directory"
        raise ConfigError([problem], "use letters, digits, - and _") from None


def list_studies(json: Json = False) -> None:
    """List the included studies, which repeat tables of papers."""
    studies = [study_files.find(name) for name in study_files.names()]
    if json:
        return output.as_json(
            [{"name": study.name, "cells": study.size, "description": study.description} for study in studies]
        )
    output.table(("study", "description"), [(study.name, " ".join(study.description.split())) for study in studies])


def schema() -> None:
    """Print the JSON schema of study files, for editors."""
    print(json_module.dumps(Study.model_json_schema(), indent=2))
