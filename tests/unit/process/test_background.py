"""Programs that run during a context, such as tunnels."""

import signal
from pathlib import Path

import psutil
import pytest

from orchestrator.errors import CommandFailed
from orchestrator.process import background
from tests import waiting
from tests.unit.conftest import Start


def test_background_program_and_its_children_end_with_context() -> None:
    with background.run("wait", ["sh", "-c", "echo $$ >&2; cat; sleep 60"]) as program:
        assert waiting.until(lambda: program.wait(0.1))
        pid = int(program.wait(0.0)[0])
        started = psutil.Process(pid).children()
    assert not waiting.is_running(pid)
    assert all(waiting.ends(child.pid) for child in started)


def test_background_program_reads_lines_that_are_sent() -> None:
    with background.run("echo", ["cat"]) as program:
        program.send("first")
        program.send("second")
        assert waiting.until(lambda: program.written() == ["first", "second"])
    with background.run("end", ["true"]) as program:
        with pytest.raises(CommandFailed):
            program.wait(10.0)
        program.send("too late")


def test_end_of_a_background_program_is_noticed() -> None:
    with (
        pytest.raises(CommandFailed, match="exit code 3\\):\n    that was it"),
        background.run("wait", ["sh", "-c", "echo that was it >&2; exit 3"]) as program,
    ):
        program.wait(None)


def test_background_program_does_not_outlive_its_parent(start: Start, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"""
from orchestrator.process import background
with background.run("wait", ["sh", "-c", "echo $$ > {pid_file}; exec cat"]) as program: program.wait(None)
"""
    parent = start("-c", code)
    assert waiting.until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    parent.send_signal(signal.SIGKILL)
    assert waiting.ends(int(pid_file.read_text()))
