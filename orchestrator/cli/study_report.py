"""Command that reports a study."""

import webbrowser
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import progress
from orchestrator.cli import study_options
from orchestrator.config import output_file
from orchestrator.studies.report import content, formats

PAGE = "report.html"  # in the study's directory

Format = Enum("Format", {name: name for name in formats.FORMATS}, type=str)  # type: ignore[misc]


def report(
    source: study_options.Started = None,
    kind: Annotated[
        Format,
        typer.Option(
            "--format",
            help="html (one page), markdown or latex (tables), csv (a row per cell), launches (CSV, a row per launch).",
        ),
    ] = Format("html"),
    path: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=f"Where to write it; default: DIR/{PAGE} for html, else standard output."),
    ] = None,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write the report of a study: medians, intervals, efficiency, ratios, plots, published numbers, commands."""
    directory = study_options.directory_of(source, "study report {}")
    text = formats.FORMATS[kind.value](content.build(directory))
    path = path or (directory / PAGE if kind.value == "html" else None)
    if path is None:
        print(text, end="")
        return
    output_file.write(text.encode(), path, "--output")
    progress.note(f"wrote {path}")
    if browse and not webbrowser.open(path.absolute().as_uri()):
        progress.note("this machine has no browser")
