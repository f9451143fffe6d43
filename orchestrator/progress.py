"""Progress on standard error: a live line on a terminal, plain lines elsewhere. Results never come this way."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.status import Status


class Terminal(Console):
    """Prints text as it is: no markup, no emoji, no colours of its own choice, and no opinion on a closed pipe."""

    def __init__(self, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, soft_wrap=True, emoji=False)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


console = Terminal(stderr=True)
PLAIN_SECONDS = 10.0  # at least this long between two lines of detail where there is no terminal


_seconds: dict[str, float] = {}


class Step:
    """One announced step; :meth:`detail` says what it is at."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = self._said = time.monotonic()
        self._live: Status | None = console.status(escape(title)) if console.is_terminal else None

    def detail(self, text: str) -> None:
        if self._live:
            self._live.update(f"{escape(self.title)}  [dim]{escape(text)}[/dim]")
        elif time.monotonic() - self._said >= PLAIN_SECONDS:
            self._said = time.monotonic()
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
    """Announce ``title``, then say whether it ended well and how long it took."""
    current, ok = Step(title), False
    current.begin()
    try:
        yield current
        ok = True
    finally:
        current.end(ok)


def seconds() -> dict[str, float]:
    """How long each step of this process took, in order."""
    return dict(_seconds)


def note(text: str) -> None:
    """One line that stays."""
    if text:
        console.print(text, markup=False)
