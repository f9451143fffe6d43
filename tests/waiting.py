"""Wait for other processes by polling with a deadline."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

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


def run_within(
    seconds: float, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], grace: float = 120.0
) -> "subprocess.CompletedProcess[str]":
    """Run a program that removes what it made when it is asked to end.

    It has a session of its own: Ctrl-C reaches it through this function alone, as one SIGTERM.

    Args:
        seconds: After which it gets SIGTERM.
        argv: The program and its arguments.
        cwd: Its working directory.
        environment: All of its variables.
        grace: Seconds after SIGTERM, after which it is killed.

    Returns:
        Its exit code and output, standard error included.

    Raises:
        TimeoutError: It did not end by itself. The message has its output.
    """
    with subprocess.Popen(
        argv, cwd=cwd, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running:  # fmt: skip
        try:
            output, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{argv} ran for more than {seconds:g} s:\n{_end(running, grace)}") from None
        except BaseException:
            _end(running, grace)
            raise
    return subprocess.CompletedProcess(argv, running.returncode, output)


def _end(running: "subprocess.Popen[str]", grace: float) -> str:
    """End a session by SIGTERM to its first process, after ``grace`` by SIGKILL to all, and return the output."""
    running.terminate()
    try:
        return running.communicate(timeout=grace)[0]
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        return running.communicate()[0]
