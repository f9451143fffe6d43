"""Progress on standard error: a live line on a terminal, plain lines elsewhere. Results are never printed here."""

import contextlib
import os
import re
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from orchestrator.errors import OrchestratorError

NARROWEST = 20  # columns; a table needs as many
# Control sequences of terminals (ECMA-48, 7 and 8 bits), and characters that change the direction of text.
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # with parameters: colours, the cursor, erasing
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def plain(text: str) -> str:
    """Remove escape sequences and control characters other than newline and tab."""
    return text if text.isprintable() else ESCAPES.sub("", text.encode(errors="replace").decode())


class Terminal(Console):
    """A console that prints text without markup, emoji and highlighting.

    All output passes through here, so nodes and files of other people cannot send a terminal anything but text.
    """

    def __init__(self, stderr: bool = False, width: int | None = None) -> None:
        _forget_unusable_widths()
        stream = sys.stderr if stderr else sys.stdout
        super().__init__(
            stderr=stderr,
            width=width,
            highlight=False,
            soft_wrap=True,
            emoji=False,
            color_system="standard" if os.environ.get("FORCE_COLOR") else "auto",
            force_terminal=bool(stream and stream.isatty()),  # rich takes any file for one if FORCE_COLOR is set
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else Segment(plain(part.text), part.style)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(plain(text), **options)  # before rich removes a part of a sequence


def _forget_unusable_widths() -> None:
    """Remove unusable widths from the environment: Rich and Typer accept any digits, and pad every line to them."""
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        width = os.environ.get(name)
        if width is not None and not (re.fullmatch("[0-9]{1,4}", width) and int(width) >= NARROWEST):
            del os.environ[name]


console = Terminal(stderr=True)
PLAIN_SECONDS = 10.0  # least time between two lines of detail without a terminal


_seconds: dict[str, float] = {}


class Step:
    """One announced step; :meth:`detail` shows its progress."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = self._last_print = time.monotonic()
        self._live: Status | None = console.status(escape(title)) if console.is_terminal else None

    def detail(self, text: str) -> None:
        if self._live:
            self._live.update(f"{escape(self.title)}  [dim]{escape(text)}[/dim]")
        elif time.monotonic() - self._last_print >= PLAIN_SECONDS:
            self._last_print = time.monotonic()
            console.print(f"  {text}", markup=False)

    def begin(self) -> None:
        if self._live:
            self._live.start()
        else:
            console.print(f"{self.title} ...", markup=False)

    def end(self, ok: bool) -> None:
        seconds = _seconds[self.title] = time.monotonic() - self.started
        if self._live:
            self._live.stop()
            mark = "[green]✓[/green]" if ok else "[red]✗[/red]"
            console.print(f"{mark} {escape(self.title)}  [dim]{seconds:.1f} s[/dim]")
        else:
            console.print(f"{self.title}: {'done' if ok else 'failed'} in {seconds:.1f} s", markup=False)


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Announce ``title``, then print whether the step succeeded and how long it took."""
    current, ok = Step(title), False
    current.begin()
    try:
        yield current
        ok = True
    finally:
        current.end(ok)


def seconds() -> dict[str, float]:
    """Return how long each step of this process took, in order."""
    return dict(_seconds)


def note(text: str) -> None:
    """Print one line that stays."""
    if text:
        console.print(text, markup=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Print neither steps nor notes: for work that another line of progress stands for."""
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


@contextlib.contextmanager
def log_errors(action: str) -> Iterator[None]:
    """Print an error of ``action`` as one line and continue; also for a record or a result that cannot be read."""
    try:
        yield
    except (OrchestratorError, OSError, ValueError, tarfile.TarError) as error:
        note(f"{action}: {error}")
