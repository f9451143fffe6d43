"""How anything is printed: JSON for machines, lines and tables for people, a run's log as it comes."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic_core import to_jsonable_python
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from orchestrator import progress, runlog

NOTHING = "-"  # where there is nothing to tell
PIPE_WIDTH = 10_000  # no line is folded for a program that reads it
console = progress.Terminal(width=None if sys.stdout and sys.stdout.isatty() else PIPE_WIDTH)


def as_json(value: Any) -> None:
    print(json.dumps(to_jsonable_python(value), indent=2))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print :func:`columns`."""
    console.print(columns(headings, rows))


def columns(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Columns without frames, which a pipe can cut."""
    drawn = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(Text(progress.plain(str(cell))) for cell in row))
    return drawn


def shown(value: float | None, form: Callable[[float], str]) -> str:
    """A cell with a number that may be missing."""
    return NOTHING if value is None else form(value)


def line(text: str = "") -> None:
    console.print(text, markup=False)


def stream(pieces: Iterable[bytes], to_stderr: bool = False) -> None:
    """Print a run's log as it comes."""
    target = progress.console if to_stderr else console
    with progress.console.status("waiting for the first rank") as live:
        for shown in runlog.lines(pieces):
            if shown.lasting:
                live.stop()  # it knows nothing of the other stream, which has the same terminal
                target.print(shown.text, markup=False)
                live.update("running")
                live.start()
            else:
                live.update(escape(shown.text))
