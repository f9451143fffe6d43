"""Programs that outlived a killed command."""

import os
import signal
from pathlib import Path

from orchestrator.process import interrupts
from tests import waiting
from tests.unit.conftest import Start

# Like Terraform: it has started work, and saves its state when it is interrupted.
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
from orchestrator import process
from orchestrator.process import interrupts
with interrupts.marking_programs(pathlib.Path(sys.argv[1])):
    process.run("apply", [sys.executable, "-c", {TOOL!r}, sys.argv[2]], on_line=lambda line: print(line, flush=True))
"""


def orphan(start: Start, directory: Path, saved: Path) -> int:
    """Start a program that works for ``directory`` and whose parent was killed."""
    command = start("-c", COMMAND, str(directory), str(saved))
    pid = int(waiting.read_line(command))
    command.kill()
    command.wait()
    assert waiting.is_running(pid)
    return pid


def test_orphan_is_interrupted_and_saves_its_state(start: Start, tmp_path: Path) -> None:
    pid = orphan(start, tmp_path / "demo", tmp_path / "saved")
    orphans = interrupts.orphans(tmp_path / "demo")
    assert [process.pid for process in orphans] == [pid]
    interrupts.end_all(orphans)
    assert waiting.ends(pid)
    assert (tmp_path / "saved").read_text() == "saved"


def test_programs_of_another_cluster_are_not_ended(start: Start, tmp_path: Path) -> None:
    pid = orphan(start, tmp_path / "other", tmp_path / "saved")
    assert interrupts.orphans(tmp_path / "demo") == []
    assert waiting.is_running(pid)
    os.kill(pid, signal.SIGKILL)


def test_process_is_not_its_own_orphan(tmp_path: Path) -> None:
    with interrupts.marking_programs(tmp_path):
        assert interrupts.orphans(tmp_path) == []
