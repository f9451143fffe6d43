"""Programs that tests run for a limited time."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import waiting

REMOVES = """
import pathlib, signal, sys, time
def end(*_):
    print("asked", flush=True)
    {at_the_end}
signal.signal(signal.SIGTERM, end)
print("started", flush=True)
time.sleep(60)
"""


def run(seconds: float, program: str) -> str:
    argv = [sys.executable, "-c", program]
    return waiting.run_within(seconds, argv, Path.cwd(), os.environ, grace=2).stdout


def test_program_that_ends_in_time_returns_its_output() -> None:
    assert run(30, "import sys; print('out'); sys.exit('error')").split() == ["out", "error"]


def test_program_out_of_time_can_remove_what_it_made(tmp_path: Path) -> None:
    removed = tmp_path / "removed"
    with pytest.raises(TimeoutError, match=r"more than 1 s:\nstarted\nasked\n$"):
        run(1, REMOVES.format(at_the_end=f"time.sleep(0.5); pathlib.Path({str(removed)!r}).touch(); sys.exit()"))
    assert removed.exists()


def test_program_that_does_not_end_is_killed_after_its_grace() -> None:
    with pytest.raises(TimeoutError, match="started\nasked"):
        run(1, REMOVES.format(at_the_end="time.sleep(60)"))


def test_interrupted_test_ends_its_program_in_the_same_way(tmp_path: Path) -> None:
    removed = tmp_path / "removed"
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(30, REMOVES.format(at_the_end=f"time.sleep(0.5); pathlib.Path({str(removed)!r}).touch(); sys.exit()"))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert removed.exists()
