"""Waiting for what other processes do: polling with a deadline."""

import subprocess
import time
from collections.abc import Callable

import psutil

DEADLINE = 20.0  # far more than anything here takes


def until(condition: Callable[[], object], seconds: float = DEADLINE) -> bool:
    """Whether ``condition`` holds within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def ends(pid: int) -> bool:
    """Whether a process ends before the deadline."""
    return until(lambda: not runs(pid))


def runs(pid: int) -> bool:
    """Whether a process is there and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def line(child: "subprocess.Popen[str]") -> str:
    """The next line that a program writes: that it is ready, or a process id."""
    return child.stdout.readline().strip() if child.stdout else ""
