"""Run the main process of a run's unit, with a small program in place of the launcher."""

import json
import math
import subprocess
import sys
from pathlib import Path

from orchestrator.launch_layout import Layout
from orchestrator.schema import RunStatus
from tests import waiting
from tests.stand_ins import wrapped_rank
from tests.unit.conftest import Start

# A stand-in for horovodrun: starts one rank inside the wrapper and returns its exit code.
LAUNCH = """
import json, os, pathlib, subprocess, sys
pathlib.Path(sys.argv[1], "program.json").write_text(json.dumps([sys.executable, "-c", sys.argv[2]]))
command = [sys.executable, "-m", "orchestrator.trainer.supervision.rank_wrapper", sys.argv[1]]
rank = subprocess.Popen(command, env={**os.environ, "HOROVOD_RANK": "0"}, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True)
for line in rank.stdout:
    print(f"[0]<stdout>:{line}", end="", flush=True)
sys.exit(rank.wait())
"""
# The supervisor with shorter timeouts.
HASTY = """
import pathlib, sys
from orchestrator import grace_periods
from orchestrator.trainer.supervision import supervise
grace_periods.TRAINER, grace_periods.LAUNCHER, grace_periods.SWEEP = 0.5, 0.5, 0.5
supervise.start_progress.FIRST_REPORT_SECONDS = 1.0
sys.exit(supervise.main(pathlib.Path(sys.argv[1])))
"""
AS_INSTALLED, IN_HASTE = ("-m", "orchestrator.trainer.supervision.supervise"), ("-c", HASTY)


def directory(tmp_path: Path, trainer: bool = False) -> Path:
    """Return the directory of a run on this machine only, of a script or of the trainer."""
    run_directory = wrapped_rank.directory(tmp_path)
    (run_directory / "hostfile").write_text("127.0.0.1 slots=1\n")
    layout = Layout({"127.0.0.1": 1}, ["127.0.0.1"], "lo", 1, math.inf, {}, trainer=trainer)
    (run_directory / "launch.json").write_text(layout.text())
    (run_directory / "log").touch()
    return run_directory


def supervise(
    start: Start, run_directory: Path, *launcher: str, by: tuple[str, str] = AS_INSTALLED
) -> "subprocess.Popen[str]":
    """Start the supervisor with Python as the launcher and these arguments; both write to the run's log."""
    (run_directory / "command.json").write_text(json.dumps([sys.executable, *launcher]))
    return start(*by, str(run_directory), output=run_directory / "log", ORCHESTRATOR_RUN=run_directory.name)


def status(run_directory: Path) -> RunStatus:
    return RunStatus.model_validate_json((run_directory / "status.json").read_text())


def pid_in_log(run_directory: Path) -> int:
    """Return the process id that a rank has written."""
    log = run_directory / "log"
    assert waiting.until(lambda: log.read_text().endswith("\n"))
    return int(log.read_text().rpartition(":")[2])
