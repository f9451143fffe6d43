"""What every shape is: a file, replaced atomically."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

from pydantic import BaseModel, ConfigDict, Field

# Seconds since the epoch, of a year that every library knows.
Time = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]


class File(BaseModel):
    """Strict about what it must hold, tolerant of keys that a newer version adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def write(self, path: Path) -> None:
        """Replace ``path`` atomically, readable by all."""
        with replaced(path, 0o644) as file:
            file.write(self.model_dump_json(indent=2).encode() + b"\n")


@contextmanager
def replaced(path: Path, mode: int) -> Iterator[IO[bytes]]:
    """A new file that takes the place of ``path`` at once when the block ends, and goes if the block fails.

    A reader sees the old file or the new one, never half of one; also after the machine went down: the new one is on
    the disk before it has its name. What a killed process left is removed by the next one.
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


def _remove_leftovers(path: Path) -> None:
    """Remove unfinished files of processes that are gone; those of former versions do not name theirs."""
    unfinished = re.compile(rf"\.{re.escape(path.name)}\.(?:(?P<pid>\d+)-)?[a-z0-9_]{{8}}")
    with os.scandir(path.parent) as entries:
        found = [(entry.path, unfinished.fullmatch(entry.name)) for entry in entries]
    for left, match in found:
        if match and not (match["pid"] and Path("/proc", match["pid"]).exists()):
            Path(left).unlink(missing_ok=True)
