"""Snapshots of the ranks' telemetry in shared memory: one file per rank, for as long as the rank lives.

A rank that ends well leaves a second file with its last scores, which is served for a few seconds more.

A rank holds a lock (flock) on its file, which the kernel drops however the rank ends. Each new content is a new file,
locked before it takes the name: so a reader sees complete contents, and a name whose file is unlocked belongs to a dead
rank. Standard library only.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

DIRECTORY = Path("/dev/shm/orchestrator")  # noqa: S108  its mode is that of /tmp, and its content is not trusted
LARGEST = 1 << 20  # bytes; a rank writes about ten thousand
ATTEMPTS = 3  # to open a file that is being replaced
LAST_SECONDS = 15.0  # to serve what an ended rank left: Prometheus reads every five seconds, and may miss one reading
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class Snapshot:
    """File of one rank, "<run>.<rank>.prom"; after its end, "<run>.<rank>.last"."""

    def __init__(self, directory: Path, run: str, rank: int) -> None:
        self.path = directory / f"{run}.{rank}.prom"
        self._next = self.path.with_suffix(".next")
        self._descriptor: int | None = None

    def write(self, content: bytes) -> None:
        """Replace the content atomically.

        Raises:
            OSError: The directory cannot be written.
        """
        prepare(self.path.parent)
        new = os.open(self._next, WRITE, 0o644)
        try:
            fcntl.flock(new, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(new, 0o644)
            with os.fdopen(new, "wb", closefd=False) as file:
                file.write(content)
            self._next.replace(self.path)
        except OSError:
            os.close(new)
            self._next.unlink(missing_ok=True)
            raise
        self._release()
        self._descriptor = new

    def leave(self, content: bytes) -> None:
        """Remove the file, and leave ``content`` to be served for LAST_SECONDS, as the rank ends.

        Raises:
            OSError: The directory cannot be written.
        """
        list(_ended(self.path.parent))  # removes old files: without monitoring no exporter does
        try:
            with os.fdopen(os.open(self._next, WRITE, 0o644), "wb") as file:
                os.fchmod(file.fileno(), 0o644)
                file.write(content)
            self.remove()  # first: a reader that saw both files would serve a series twice
            self._next.replace(self.path.with_suffix(".last"))
        except OSError:
            self._next.unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """Remove the file, when the rank ends well or exports nothing any more."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def prepare(directory: Path) -> None:
    """Create ``directory`` if it is missing: all users may write there, and delete only their own files."""
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o1777)


def live(directory: Path) -> Iterator[bytes]:
    """Yield the contents of living ranks and what ended ranks left, and remove other ranks' files if permitted."""
    yield from _ended(directory)
    for path in sorted(directory.glob("*.prom")):
        with contextlib.suppress(OSError):
            content = _content(path)
            if content is not None:
                yield content


def _ended(directory: Path) -> Iterator[bytes]:
    """Yield what ranks that ended within LAST_SECONDS left, and remove older files if permitted."""
    for path in sorted(directory.glob("*.last")):
        with contextlib.suppress(OSError), _open(path) as file:
            age = time.time() - os.fstat(file.fileno()).st_mtime
            if not 0 <= age < LAST_SECONDS:  # a clock that was set back would keep a file for long
                path.unlink()
            elif not path.with_suffix(".prom").exists():  # else the rank was restarted
                yield file.read(LARGEST)


def _content(path: Path) -> "bytes | None":
    """Return the content; None if the rank is dead or its file keeps changing."""
    for _ in range(ATTEMPTS):
        with _open(path) as file:
            if not _is_unlocked(file.fileno()):
                return file.read(LARGEST)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                path.unlink()
                path.with_suffix(".next").unlink(missing_ok=True)
                return None
    return None


def _open(path: Path) -> BinaryIO:
    # os.fdopen would refuse a directory and leave its descriptor open.
    return open(path, "rb", opener=lambda name, _: os.open(name, READ))


def _is_unlocked(descriptor: int) -> bool:
    """Check that the file is unlocked, by a shared lock, so that two readers do not take each other for a rank."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
