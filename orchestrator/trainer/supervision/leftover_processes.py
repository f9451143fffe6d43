"""Find and end the processes of a run on this node, even those whose parents are gone.

A process belongs to a run if its environment contains ``ORCHESTRATOR_RUN=<run>``, and to one of its ranks if it
contains ``ORCHESTRATOR_RANK=<run>:<rank>``. Children inherit the environment, so a helper that left its process group
or its session is found too. A process started without the environment (``env -i``, ``sudo``) is found if it descends
from the searching program: a program that adopts orphans keeps all its descendants, even if processes in between end.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import grace_periods

if TYPE_CHECKING:
    import subprocess

RUN = "ORCHESTRATOR_RUN"
RANK = "ORCHESTRATOR_RANK"
STOP = "stop"  # file in a run's directory that asks its trainer to end
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def marked(mark: str) -> set[int]:
    """Return ids of this node's processes whose environment holds ``mark`` ("NAME=value"), except own ancestors."""
    ancestors, pid = set(), os.getpid()
    while pid > 0:
        ancestors.add(pid)
        pid = _parent_and_threads(pid)[0]
    return {pid for pid in _pids() if pid not in ancestors and mark.encode() in _environment(pid)}


def adopt_orphans() -> None:
    """Become the parent, in place of process 1, of every descendant whose own parent ends."""
    import ctypes  # noqa: PLC0415  a program that only searches needs none

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Let this process get a signal as soon as its parent ends, even by SIGKILL; programs that it executes, too."""
    import ctypes  # noqa: PLC0415  as above

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def reap(child: "subprocess.Popen[bytes]") -> "int | None":
    """Reap ``child`` and adopted orphans.

    Returns:
        The exit code of ``child`` (128 + n for signal n), None while it runs.
    """
    with contextlib.suppress(ChildProcessError):  # no child is left
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == child.pid and child.returncode is None:
                break
            os.waitpid(ended.si_pid, 0)
    code = child.poll()
    return None if code is None else exit_code(code)


def exit_code(code: int) -> int:
    """Return the exit code of a child as shells do: 128 + n for signal n, which subprocess gives as -n."""
    return 128 - code if code < 0 else code


def wait_for_all(children: "Iterable[subprocess.Popen[bytes]]", seconds: float) -> None:
    """Wait until all ``children`` have ended, at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while any(child.poll() is None for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)


def descendants(pid: int) -> set[int]:
    """Return the children of ``pid``, their children and so on, without zombies.

    Children of a zombie are found, too: its main thread has ended, and its other threads keep the children.
    """
    processes = {child: _parent_and_threads(child) for child in _pids()}
    pids: set[int] = set()
    generation = {pid}
    while generation:
        generation = {child for child, (parent, _) in processes.items() if parent in generation}
        pids |= generation
    return {child for child in pids if processes[child][1]}


def active_runs() -> list[str]:
    """Return the names of the runs that have a process on this node."""
    prefix = f"{RUN}=".encode()
    values = (value for pid in _pids() for value in _environment(pid))
    return sorted({value[len(prefix) :].decode() for value in values if value.startswith(prefix)})


def end_marked(mark: str, grace: float = grace_periods.LEFTOVERS, with_descendants: bool = False) -> int:
    """Terminate marked processes, and kill those that are left after a grace period.

    Args:
        mark: As in :func:`marked`.
        grace: Seconds between SIGTERM and SIGKILL.
        with_descendants: Also end this process's descendants.

    Returns:
        The number of processes found at first.
    """

    def remaining() -> set[int]:
        return marked(mark) | (descendants(os.getpid()) if with_descendants else set())

    pids = remaining()
    _signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while remaining() and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(10):  # a process that forks meanwhile is found in the next round
        _signal(remaining(), signal.SIGKILL)
        if not remaining():
            break
        time.sleep(0.05)
    return len(pids)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # root's, if a script uses sudo
            os.kill(pid, number)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    """Return the environment of ``pid``; empty for a zombie, a process that is gone, or another user's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _parent_and_threads(pid: int) -> tuple[int, int]:
    """Return the parent of ``pid`` and the number of its threads that have not ended; (0, 0) if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        threads = int(fields[17]) - (fields[0] in "ZX")
        return int(fields[1]), threads
    except (OSError, ValueError, IndexError):
        return 0, 0


if __name__ == "__main__":
    end_marked(f"{RUN}={sys.argv[1]}")
