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
    _remove_leftovers(path)
    prefix = f".{path.name}.{os.getpid()}-"
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=prefix, delete=False) as temporary:
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


def _remove_leftovers(path: Path) -> None:
    """Remove unfinished files of processes that ended."""
    unfinished = re.compile(rf"\.{re.escape(path.name)}\.(\d+)-[a-z0-9_]{{8}}")
    with os.scandir(path.parent) as entries:
        leftovers = [(entry.path, unfinished.fullmatch(entry.name)) for entry in entries]
    for leftover, match in leftovers:
        if match and not Path("/proc", match[1]).exists():
            Path(leftover).unlink(missing_ok=True)
