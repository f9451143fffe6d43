"""Ctrl-C, once and again, and SIGKILL: what becomes of the programs that were under way."""

import signal
import subprocess
from pathlib import Path

import pytest

from orchestrator import termination
from tests import waiting
from tests.unit.conftest import Start

# Runs the program that it is given with a log, and says every line of it.
COMMAND = """
import pathlib, sys
from orchestrator import process
process.run("wait", [sys.executable, "-u", "-c", sys.argv[1]], pathlib.Path(sys.argv[2]), on_line=print)
"""
# Notes the first interrupt and goes on; has started a program of its own.
BUSY = """
import os, signal, subprocess, time
signal.signal(signal.SIGINT, lambda number, frame: print("SIGINT"))
print(os.getpid(), subprocess.Popen(["sleep", "60"]).pid)
while True: time.sleep(1)
"""
# Writes far more than a pipe holds once its parent is gone, and then writes down what it made.
WRITES_ON = """
import os, pathlib, time
print(os.getpid())
parent = os.getppid()
while os.getppid() == parent: time.sleep(0.01)
for number in range(20_000): print("line", number)
print("saved my state")
"""


def test_a_second_interrupt_does_not_wait_for_the_first(start: Start, tmp_path: Path) -> None:
    command = start("-c", COMMAND, BUSY, str(tmp_path / "log"))
    child, grandchild = map(int, waiting.line(command).split())
    command.send_signal(signal.SIGINT)
    assert waiting.until(lambda: "\nSIGINT\n" in (tmp_path / "log").read_text())
    assert waiting.runs(child)
    command.send_signal(signal.SIGINT)
    assert waiting.ends(child)
    assert waiting.ends(grandchild)
    assert command.wait(10) == -signal.SIGINT


def test_a_program_whose_command_is_killed_writes_on_and_saves_its_state(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = start("-c", COMMAND, WRITES_ON, str(log))
    child = int(waiting.line(command))
    command.kill()
    assert waiting.ends(child)
    assert log.read_text().splitlines()[-2:] == ["line 19999", "saved my state"]


def test_programs_that_a_library_starts_end_with_it(start: Start) -> None:
    def library() -> None:
        started.append(start("-c", "print('ready'); import time; time.sleep(60)"))
        assert waiting.line(started[0]) == "ready"
        raise ZeroDivisionError

    started: list[subprocess.Popen[str]] = []
    with pytest.raises(ZeroDivisionError), termination.ending_children():
        library()
    assert not waiting.runs(started[0].pid)


def test_programs_that_a_library_starts_go_on_where_it_ends_well(start: Start) -> None:
    with termination.ending_children():
        child = start("-c", "print('ready'); import time; time.sleep(60)")
        assert waiting.line(child) == "ready"
    assert waiting.runs(child.pid)


def test_what_is_started_in_the_background_of_a_script_can_be_interrupted_all_the_same(start: Start) -> None:
    background = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    keep = "from orchestrator import termination; termination.keep_programs_interruptible()"
    child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    begin = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert waiting.line(start("-c", f"{background}\n{begin}")) == "False"
    assert waiting.line(start("-c", f"{background}\n{keep}\n{begin}")) == "True"
