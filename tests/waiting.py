"""Wait for other processes by polling with a deadline."""

import subprocess
import time
from collections.abc import Callable

import psutil

DEADLINE = 20.0  # much more than any test takes


def until(condition: Callable[[], object], seconds: float = DEADLINE) -> bool:
    """Return whether ``condition`` becomes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def ends(pid: int) -> bool:
    """Return whether a process ends before the deadline."""
    return until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def read_line(child: "subprocess.Popen[str]") -> str:
    """Read the next line of a program's output."""
    return child.stdout.readline().strip() if child.stdout else ""
