"""Ctrl-C, once and again, and SIGKILL: their effect on running programs."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator import process
from orchestrator.process import interrupts
from tests import waiting
from tests.unit.conftest import Start

# Runs the given program with a log, and prints every line of it.
COMMAND = """
import pathlib, sys
from orchestrator import process
process.run("wait", [sys.executable, "-u", "-c", sys.argv[1]], pathlib.Path(sys.argv[2]), on_line=print)
"""
# Records the first interrupt and continues; has started a child.
BUSY = """
import os, signal, subprocess, time
signal.signal(signal.SIGINT, lambda number, frame: print("SIGINT"))
print(os.getpid(), subprocess.Popen(["sleep", "60"]).pid)
while True: time.sleep(1)
"""
# Writes more than a pipe holds after its parent has ended, then saves its state.
WRITES_ON = """
import os, pathlib, time
print(os.getpid())
parent = os.getppid()
while os.getppid() == parent: time.sleep(0.01)
for number in range(20_000): print("line", number)
print("saved my state")
"""
HELD = [signal.SIGTERM, signal.SIGINT]


def test_second_interrupt_does_not_wait_for_the_first(start: Start, tmp_path: Path) -> None:
    command = start("-c", COMMAND, BUSY, str(tmp_path / "log"))
    child, grandchild = map(int, waiting.read_line(command).split())
    command.send_signal(signal.SIGINT)
    assert waiting.until(lambda: "\nSIGINT\n" in (tmp_path / "log").read_text())
    assert waiting.is_running(child)
    command.send_signal(signal.SIGINT)
    assert waiting.ends(child)
    assert waiting.ends(grandchild)
    assert command.wait(10) == -signal.SIGINT


def test_interrupt_while_a_program_is_started_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = list[subprocess.Popen[bytes]]()

    def popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        programs.append(start_program(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return programs[0]

    start_program = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        process.run("wait", ["sleep", "60"])
    assert programs[0].returncode == -signal.SIGINT


def test_each_signal_held_back_is_handled_at_the_end_and_later_ones_at_once() -> None:
    handled = list[int]()
    own = {number: signal.signal(number, lambda number, _: handled.append(number)) for number in HELD}
    try:
        with interrupts.held():
            for number in HELD:
                signal.raise_signal(number)
            assert not handled
        assert handled == HELD
        for number in HELD:
            signal.raise_signal(number)
        assert handled == 2 * HELD
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)


def test_program_of_a_killed_command_completes_and_saves_state(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = start("-c", COMMAND, WRITES_ON, str(log))
    child = int(waiting.read_line(command))
    command.kill()
    assert waiting.ends(child)
    assert log.read_text().splitlines()[-2:] == ["line 19999", "saved my state"]


def test_programs_of_a_library_end_with_it(start: Start) -> None:
    def library() -> None:
        started.append(start("-c", "print('ready'); import time; time.sleep(60)"))
        assert waiting.read_line(started[0]) == "ready"
        raise ZeroDivisionError

    started: list[subprocess.Popen[str]] = []
    with pytest.raises(ZeroDivisionError), interrupts.ending_children():
        library()
    assert not waiting.is_running(started[0].pid)


def test_programs_of_a_library_continue_after_success(start: Start) -> None:
    with interrupts.ending_children():
        child = start("-c", "print('ready'); import time; time.sleep(60)")
        assert waiting.read_line(child) == "ready"
    assert waiting.is_running(child.pid)


def test_background_programs_of_a_script_can_be_interrupted(start: Start) -> None:
    background = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    keep = "from orchestrator.process import interrupts; interrupts.keep_programs_interruptible()"
    child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    begin = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert waiting.read_line(start("-c", f"{background}\n{begin}")) == "False"
    assert waiting.read_line(start("-c", f"{background}\n{keep}\n{begin}")) == "True"
