"""Who may work on a cluster: one deploy or teardown at a time, and one start of a run."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import datetime

from orchestrator import endings
from orchestrator.errors import StateError
from orchestrator.state import Home, usable


@contextlib.contextmanager
def held(place: Home) -> Iterator[None]:
    """Hold the cluster for this process; what a killed holder left running is ended first.

    Raises StateError where another process holds it. The kernel drops the lock when the process ends, however it ends.
    """
    with usable(place.path):
        place.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (place.path / "lock").open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise StateError(f"cluster {place.name!r} is locked by {file.read().strip()}", "wait for it") from None
        file.truncate(0)
        file.write(f"pid {os.getpid()} since {datetime.now():%Y-%m-%d %H:%M:%S}")
        file.flush()
        endings.end_orphans(place.path)
        endings.own(place.path)
        yield


@contextlib.contextmanager
def starting(place: Home) -> Iterator[None]:
    """Hold the right to start a run, from the placing of its data to its unit on the head; waits for another's end."""
    with (place.path / "starting").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
