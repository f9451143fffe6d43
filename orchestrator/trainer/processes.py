"""Find and end the processes of a run on this node, whatever became of their parents.

A process belongs to a run when its environment says ``ORCHESTRATOR_RUN=<run>``, and to one rank of it when it says
``ORCHESTRATOR_RANK=<run>:<rank>``. Children inherit the environment, so a helper that left its process group or its
session is found too.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

RUN = "ORCHESTRATOR_RUN"
RANK = "ORCHESTRATOR_RANK"


def marked(mark: str) -> set[int]:
    """Process ids on this node whose environment holds ``mark`` ("NAME=value"), without our own line of ancestors."""
    kin = _ancestors(os.getpid())
    return {pid for pid in _pids() if pid not in kin and mark.encode() in _environment(pid)}


def active_runs() -> list[str]:
    """Names of the runs that have a process on this node."""
    prefix = f"{RUN}=".encode()
    values = (value for pid in _pids() for value in _environment(pid))
    return sorted({value[len(prefix) :].decode() for value in values if value.startswith(prefix)})


def end(mark: str, grace: float = 5.0) -> int:
    """Terminate what carries ``mark``, kill what is left after ``grace`` seconds; returns how many there were."""
    found = marked(mark)
    _signal(found, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(10):  # a process that forks while we kill is found in the next round
        _signal(marked(mark), signal.SIGKILL)
        if not marked(mark):
            break
        time.sleep(0.05)
    return len(found)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    """The environment of ``pid``; empty for a zombie, and for a process that is gone or not ours."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _ancestors(pid: int) -> set[int]:
    found = set()
    while pid > 0:
        found.add(pid)
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


if __name__ == "__main__":
    end(f"{RUN}={sys.argv[1]}")
