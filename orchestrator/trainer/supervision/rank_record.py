"""``ranks/N.json``: record of one rank's process, written by its wrapper and read by the supervisor.

Standard library only: importing pydantic would take each rank three times the CPU of all else that its wrapper does.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

SAME_CLOCK = 0.1  # seconds; file systems round the times of files
ENDED_BY_LAUNCHER = 143  # exit code in the record of a rank that was ended by its launcher


class RankRecord(NamedTuple):
    """Record of one rank; times in seconds since the epoch, by the clock of the rank's host; see :func:`read`."""

    rank: int
    host: str
    pid: int
    started: float
    ended: "float | None" = None
    exit_code: "int | None" = None
    terminated: bool = False

    def write(self, path: Path) -> None:
        """Replace ``path`` atomically; without fsync, since it is only read while the run is alive."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self._asdict()) + "\n")
        temporary.replace(path)


def read(path: Path) -> RankRecord:
    """Read the record in ``path``; unknown keys are ignored.

    The end of a rank is the time of its file, by the clock of the storage, if the host's clock differs: other ranks
    follow one that fails in less time than clocks of hosts may differ.
    """
    values = json.loads(path.read_text())
    record = RankRecord(**{key: values[key] for key in RankRecord._fields if key in values})
    written = path.stat().st_mtime
    if record.ended is None or abs(written - record.ended) < SAME_CLOCK:
        return record
    return record._replace(ended=written)


def read_all(run_directory: Path) -> list[RankRecord]:
    """Read the records of all ranks of a run that have started."""
    return [read(path) for path in (run_directory / "ranks").glob("[0-9]*.json")]
