"""Programs that outlived a killed command of ours."""

import os
import signal
from pathlib import Path

from orchestrator import termination
from tests import waiting
from tests.unit.conftest import Start

# As Terraform does: it has begun something, and when it is interrupted it writes down what it made.
TOOL = """
import os, pathlib, sys, time
try:
    print(os.getpid(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1]).write_text("saved")
"""
COMMAND = f"""
import pathlib, sys
from orchestrator import termination, process
termination.own(pathlib.Path(sys.argv[1]))
process.run("apply", [sys.executable, "-c", {TOOL!r}, sys.argv[2]], on_line=lambda line: print(line, flush=True))
"""


def orphan(start: Start, directory: Path, saved: Path) -> int:
    """A program that works for ``directory`` and whose parent was killed."""
    command = start("-c", COMMAND, str(directory), str(saved))
    pid = int(waiting.line(command))
    command.kill()
    command.wait()
    assert waiting.runs(pid)
    return pid


def test_an_orphan_is_interrupted_so_that_it_saves_what_it_made(start: Start, tmp_path: Path) -> None:
    pid = orphan(start, tmp_path / "demo", tmp_path / "saved")
    left = termination.orphans(tmp_path / "demo")
    assert [process.pid for process in left] == [pid]
    termination.end_all(left)
    assert waiting.ends(pid)
    assert (tmp_path / "saved").read_text() == "saved"


def test_programs_that_work_for_another_cluster_are_left_alone(start: Start, tmp_path: Path) -> None:
    pid = orphan(start, tmp_path / "other", tmp_path / "saved")
    assert termination.orphans(tmp_path / "demo") == []
    assert waiting.runs(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_process_does_not_take_itself_for_an_orphan(tmp_path: Path) -> None:
    termination.own(tmp_path)
    assert termination.orphans(tmp_path) == []
