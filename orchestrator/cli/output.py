"""Print results: JSON for machines, lines and tables for people, and a run's log as it comes."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic_core import to_jsonable_python
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from orchestrator import progress
from orchestrator.runs import log_display

NOTHING = "-"  # shown for a missing value
PIPE_WIDTH = 10_000  # columns: lines are not folded for programs
console = progress.Terminal(width=None if sys.stdout and sys.stdout.isatty() else PIPE_WIDTH)


def as_json(value: Any) -> None:
    print(json.dumps(to_jsonable_python(value), indent=2))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print :func:`columns`."""
    console.print(columns(headings, rows))


def columns(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Lay out a table without frames, so that shell tools can cut its columns."""
    drawn = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(Text(progress.plain(str(cell))) for cell in row))
    return drawn


def shown(value: float | None, form: Callable[[float], str]) -> str:
    """Format a number that may be missing."""
    return NOTHING if value is None else form(value)


def line(text: str = "") -> None:
    console.print(text, markup=False)


def stream(pieces: Iterable[bytes], to_stderr: bool = False) -> None:
    """Print a run's log as it comes."""
    target = progress.console if to_stderr else console
    with progress.console.status("waiting for the first rank") as live:
        for shown in log_display.lines(pieces):
            if shown.lasting:
                live.stop()  # it does not notice output of the other stream to the same terminal
                target.print(shown.text, markup=False)
                live.update("running")
                live.start()
            else:
                live.update(escape(shown.text))
