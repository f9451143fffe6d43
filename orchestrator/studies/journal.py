"""A study's directory: what was launched and what it measured, safe against a kill at any instant.

A launch is written down twice: its run's name in ``started`` before the run starts, and its measurement in
``launches.jsonl`` after the run's files are here. After a kill the directory has the measurement, or a run to collect,
or nothing that was started. ``queued.json`` names launches that the head makes, before it may make the first.
"""

import contextlib
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from orchestrator.errors import StateError, command
from orchestrator.schema import bounded_files
from orchestrator.schema.atomic_write import flush
from orchestrator.schema.bounded_files import Inaccessible, Unreadable
from orchestrator.schema.file_lock import try_lock
from orchestrator.schema.file_model import File, Time
from orchestrator.schema.names import FileName
from orchestrator.schema.studies import Cell, Launch

STUDY, LAUNCHES, STARTED, QUEUED = "study.yaml", "launches.jsonl", "started", "queued.json"
LOCK, RUNS, CLUSTER, NO_DEPLOY = "lock", "runs", "cluster", "no-deploy"
ATTEMPTS, PAUSE = 5, 0.1  # to take the lock; seconds between two
MOST_BYTES = 256 << 20  # of launches.jsonl


class Started(File):
    """Content of ``started``: a launch whose run may exist. The fields are as of :class:`Launch`."""

    cell: Cell
    round: int
    again: bool
    run: FileName
    started: Time
    busy: float
    command: list[str]

    def launch(self, **measured: object) -> Launch:
        """Return the launch with what was measured."""
        fields = self.model_dump(exclude={"cell"})
        return Launch.model_validate({**fields, "cell": self.cell, "key": self.cell.key, **measured})


class Queued(File):
    """Content of ``queued.json``: launches in the order in which the head makes them.

    Attributes:
        cluster: Name of the cluster.
        run: Id of the queue.
        launches: The launches, each with the time at which it was prepared.
    """

    cluster: str
    run: FileName
    launches: list[Started]


class Journal:
    """The launches of one study; only one process at a time has it open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.launches = read(directory, repair=True)
        self.started = self._started()
        self.queued = read_queued(directory)

    def begin(self, started: Started) -> None:
        """Write down that a run is about to start."""
        started.write(self.directory / STARTED)
        flush(self.directory)
        self.started = started

    def end(self, launch: Launch) -> None:
        """Add a launch that has ended; it is on the disk when this returns."""
        with (self.directory / LAUNCHES).open("ab") as file:
            file.write(launch.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.launches.append(launch)
        self.forget()

    def forget(self) -> None:
        """Remove the note of a run that started, which is in the journal or never ran."""
        (self.directory / STARTED).unlink(missing_ok=True)
        self.started = None

    def enqueue(self, queued: Queued) -> None:
        """Write down that the head is about to make launches."""
        queued.write(self.directory / QUEUED)
        flush(self.directory)
        self.queued = queued

    def dequeue(self) -> None:
        """Remove the note of launches that are all in the journal, or will not be made."""
        (self.directory / QUEUED).unlink(missing_ok=True)
        self.queued = None

    def keep(self, source: Path, run: str) -> Path:
        """Copy the files of a run from ``source``, without checkpoints and output, and return their directory."""
        target = self.directory / RUNS / run
        target.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".copying-") as temporary:
            copy = Path(temporary) / run
            copy.mkdir()
            for path in source.iterdir():
                if path.is_file() and not path.name.startswith("."):
                    shutil.copyfile(path, copy / path.name)
            shutil.rmtree(target, ignore_errors=True)
            copy.rename(target)
        return target

    def _started(self) -> Started | None:
        """Return the launch that was under way when the study was killed."""
        try:
            started = bounded_files.read_model(self.directory / STARTED, Started)
        except FileNotFoundError:
            return None
        except Unreadable as error:
            raise unusable(error, "remove this file: the launch is then measured again") from None
        if started.run in {launch.run for launch in self.launches}:
            self.forget()
            return None
        return started


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Journal]:
    """Open the journal of a study's directory for this process alone.

    Raises:
        StateError: Another process has it open, or a file in it is damaged.
    """
    with (directory / LOCK).open("a+", encoding="utf-8") as file:
        if not _locked(file):
            file.seek(0)
            holder = " ".join(file.read(100).split()) or "another process"
            raise StateError(
                f"{directory}: this study is run by {holder}", f"{status_command(directory)} shows how far it is"
            )
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), f"pid {os.getpid()}".encode())
        for leftover in (directory / RUNS).glob(".copying-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield Journal(directory)


def _locked(file: IO[str]) -> bool:
    """Take the lock of a study, which :func:`runner` may hold for an instant; return whether that worked."""
    for _ in range(ATTEMPTS):
        if try_lock(file):
            return True
        time.sleep(PAUSE)
    return False


def runner(directory: Path) -> str | None:
    """Return which process runs the study, as "pid 12"; None if none does."""
    with contextlib.suppress(FileNotFoundError), (directory / LOCK).open("r", encoding="utf-8") as file:
        return None if try_lock(file, shared=True) else " ".join(file.read(100).split())
    return None


def read_queued(directory: Path) -> Queued | None:
    """Return the launches that the head makes; None if it makes none. Raises StateError."""
    try:
        return bounded_files.read_model(directory / QUEUED, Queued)
    except FileNotFoundError:
        return None
    except Unreadable as error:
        raise unusable(error, "remove this file: launches that the head made are then made again") from None


def read(directory: Path, repair: bool = False) -> list[Launch]:
    """Return the launches in the order in which they ended. A last line that was not finished is left out.

    Args:
        directory: Directory of the study.
        repair: Cut that line off.

    Returns:
        All launches, also those that failed or were repeated; see :func:`orchestrator.studies.round_ratios.by_round`.

    Raises:
        StateError: A line is damaged.
    """
    path = directory / LAUNCHES
    try:
        content = bounded_files.read_bytes(path, MOST_BYTES)
        whole = content[: content.rfind(b"\n") + 1]
        if repair and len(whole) < len(content):
            os.truncate(path, len(whole))
        lines = enumerate(whole.splitlines(), 1)
        return [bounded_files.load_model(line, Launch, f"{path}: line {number}") for number, line in lines]
    except FileNotFoundError:
        return []
    except Unreadable as error:
        raise unusable(error, "remove this line: its launch is then measured again") from None


def unusable(error: Unreadable, remedy: str) -> StateError:
    """Return the error of a study's file; ``remedy`` is that of damaged content, so not of a file that was not read."""
    access = "make it a file that your account can read, or name another directory"
    return StateError(str(error), access if isinstance(error, Inaccessible) else remedy)


def resume_command(directory: Path) -> str:
    """Return the command that continues a study, for a hint."""
    return command(f"study {shlex.quote(str(directory))} --resume")


def report_command(directory: Path) -> str:
    """Return the command that reports a study, for a hint."""
    return command(f"study report {shlex.quote(str(directory))}")


def status_command(directory: Path) -> str:
    """Return the command that shows how far a study is, for a hint."""
    return command(f"study status {shlex.quote(str(directory))}")
