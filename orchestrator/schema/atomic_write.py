"""Write files so that a crash or a kill leaves the old file or the new one, never a part of one."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replaced(path: Path, mode: int) -> Iterator[IO[bytes]]:
    """Yield a new file that atomically replaces ``path`` when the block ends, and is removed if the block fails.

    A reader sees the old file or the new one, never a part of one, even after the machine crashes: the new file is on
    the disk before it is renamed. Unfinished files of killed processes are removed by the next call.
    """
    for leftover in leftovers(path):
        leftover.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=unfinished_prefix(path), delete=False) as temporary:
        try:
            yield temporary.file
            temporary.flush()
            os.fchmod(temporary.fileno(), mode)
            os.fsync(temporary.fileno())
            Path(temporary.name).replace(path)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise


def flush(path: Path) -> None:
    """Write a file or the entries of a directory to the disk, so that they survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unfinished_prefix(path: Path) -> str:
    """Return how the names of this process's unfinished files or directories for ``path`` begin."""
    return f".{path.name}.{os.getpid()}-"


def leftovers(path: Path) -> list[Path]:
    """Return unfinished files or directories for ``path`` of processes that ended."""
    unfinished = re.compile(rf"\.{re.escape(path.name)}\.(\d+)-[a-z0-9_]{{8}}")
    with os.scandir(path.parent) as entries:
        found = [(Path(entry.path), unfinished.fullmatch(entry.name)) for entry in entries]
    return [leftover for leftover, match in found if match and not Path("/proc", match[1]).exists()]
