"""Errors that hold nothing up: they are said, and what was under way goes on."""

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestrator import progress
from orchestrator.errors import OrchestratorError


@contextmanager
def noting(what: str, say: Callable[[str], None] = progress.note) -> Iterator[None]:
    """Go on after an error, and after a record or a result that cannot be read."""
    try:
        yield
    except (OrchestratorError, OSError, ValueError, tarfile.TarError) as error:
        say(f"{what}: {error}")
