"""Locks of a cluster: one deploy, one teardown or one start of a run at a time."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

from orchestrator import progress
from orchestrator.errors import StateError
from orchestrator.process import interrupts
from orchestrator.schema.file_lock import try_lock
from orchestrator.state import StateDir, usable

ROUNDS = 3  # a program may start another while it is being ended
LOOK_SECONDS = 0.1
MOST_SHOWN = 100  # characters of a lock file, which may be damaged


@contextlib.contextmanager
def held(state_dir: StateDir) -> Iterator[None]:
    """Hold the cluster's lock, and end programs that a killed holder left running.

    The kernel drops the lock when the process ends, in whatever way.

    Raises:
        StateError: Another process holds the lock, or is starting a run.
    """
    with _locked(state_dir, "lock"), _locked(state_dir, "starting"):
        for _ in range(ROUNDS):
            programs = interrupts.orphans(state_dir.path)
            if not programs:
                break
            with progress.step("Ending programs of a killed command"):
                interrupts.end_all(programs)
        with interrupts.marking_programs(state_dir.path):
            yield


@contextlib.contextmanager
def starting(state_dir: StateDir) -> Iterator[None]:
    """Hold the right to start a run, from copying its data until its unit runs on the head.

    Raises:
        StateError: Another process holds it.
    """
    with _locked(state_dir, "starting"):
        yield


@contextlib.contextmanager
def waited(path: Path, does: str, seconds: float, variable: str = "XDG_STATE_HOME") -> Iterator[None]:
    """Wait for the lock on the file ``path`` and hold it.

    Args:
        path: The lock file.
        does: What commands that hold this lock do, for messages.
        seconds: How long to wait.
        variable: The environment variable that moves ``path``, for messages.

    Raises:
        StateError: Another command held the lock for all of these seconds.
    """
    with usable(path, variable):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = path.open("a")
    with file:
        with usable(path, variable):  # a file system may have no locks
            taken = try_lock(file)
        if not taken:
            with progress.step(f"Waiting for another command that {does}"):
                _take(file, does, time.monotonic() + seconds)
        yield


def _take(file: IO[str], does: str, deadline: float) -> None:
    while not try_lock(file):
        if time.monotonic() > deadline:
            raise StateError(
                f"another command that {does} has not ended", f"`fuser {file.name}` shows its process: end it"
            )
        time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def _locked(state_dir: StateDir, name: str) -> Iterator[None]:
    with usable(state_dir.path):
        state_dir.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (state_dir.path / name).open("a+", encoding="utf-8", errors="replace")
    with file:
        with usable(state_dir.path / name):
            if not try_lock(file):
                file.seek(0)
                holder = " ".join(file.read(MOST_SHOWN).split()) or "another process"
                raise StateError(f"cluster {state_dir.name!r} is locked by {holder}", "wait for it")
        with contextlib.suppress(OSError):  # a full disk does not stop a teardown
            os.ftruncate(file.fileno(), 0)
            machine, since = socket.gethostname(), f"{datetime.now():%Y-%m-%d %H:%M:%S}"
            os.write(file.fileno(), f"pid {os.getpid()} on {machine} since {since}".encode())
        yield
