"""Print results: JSON for machines, lines and tables for people, and a run's log as it comes."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic_core import to_jsonable_python
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from orchestrator import progress
from orchestrator.runs import log_display

NOTHING = "-"  # shown for a missing value
NUMERIC = re.compile(r"[+-]?[0-9]|-$")  # beginning of a cell with a number, or of one without a value
NARROWEST_TEXT = 12  # columns to which a text is folded; a table that is still too wide exceeds the terminal
PIPE_WIDTH = 10_000  # columns: lines are not folded for programs
console = progress.Terminal(width=None if sys.stdout and sys.stdout.isatty() else PIPE_WIDTH)


def as_json(value: Any) -> None:
    print(json.dumps(value, default=to_jsonable_python, indent=2))  # which refuses keys that are not UTF-8


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print :func:`columns`."""
    console.print(columns(headings, rows))


def columns(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Lay out a table without frames, so that shell tools can cut its columns.

    If the terminal is narrower, columns of text are folded and columns of numbers keep their width.
    """
    cells = [[progress.plain(str(cell)) for cell in row] for row in rows]
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    spare = 0  # columns of the terminal that can be saved by folding texts
    for number, heading in enumerate(headings):
        column = [row[number] for row in cells]
        numeric = all(map(NUMERIC.match, column))
        drawn.add_column(heading, no_wrap=numeric, overflow="fold")
        spare += 0 if numeric else max(0, max(map(cell_len, [heading, *column])) - NARROWEST_TEXT)
    for row in cells:
        drawn.add_row(*map(Text, row))
    least = width(drawn) - spare
    drawn.width = least if least > console.width else None
    return drawn


def width(table: Table) -> int:
    """Return the width of a table in which no cell is folded."""
    return console.measure(table, options=console.options.update_width(PIPE_WIDTH)).maximum


def ranks_on_nodes(ranks: int, nodes: int) -> str:
    """Return both numbers in words."""
    return f"{ranks} rank{'s' * (ranks != 1)} on {nodes} node{'s' * (nodes != 1)}"


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
