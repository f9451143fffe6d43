"""Run the wrapper around a rank as a process, like the launcher."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

from orchestrator.launch_layout import Layout
from orchestrator.trainer.supervision.rank_record import RankRecord, read
from tests.unit.conftest import Start

SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
RANK = 3


def directory(tmp_path: Path, trainer: bool = False) -> Path:
    """Return the directory of a run of a script or of the trainer, with a unique name."""
    run_directory = tmp_path / f"run-{os.getpid()}-{tmp_path.name}"
    (run_directory / "ranks").mkdir(parents=True)
    hosts = ["127.0.0.1"] * 8
    layout = Layout({"127.0.0.1": len(hosts)}, hosts, "lo", 1, math.inf, {}, trainer=trainer)
    (run_directory / "launch.json").write_text(layout.text())
    return run_directory


def python(start: Start, run_directory: Path, code: str, *arguments: str, **added: str) -> "subprocess.Popen[str]":
    """Start rank 3 of a run with ``code``."""
    (run_directory / "program.json").write_text(json.dumps([sys.executable, "-c", code, *arguments]))
    variables = {"ORCHESTRATOR_RUN": run_directory.name, "HOROVOD_RANK": str(RANK), **added}
    return start("-m", "orchestrator.trainer.supervision.rank_wrapper", str(run_directory), **variables)


def finished(run_directory: Path, *program: str) -> "subprocess.CompletedProcess[str]":
    """Run rank 3 of a run with ``program`` to its end."""
    (run_directory / "program.json").write_text(json.dumps(program))
    environment = {**os.environ, "ORCHESTRATOR_RUN": run_directory.name, "HOROVOD_RANK": str(RANK)}
    command = [sys.executable, "-m", "orchestrator.trainer.supervision.rank_wrapper", str(run_directory)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def record(run_directory: Path, rank: int = RANK) -> RankRecord:
    return read(run_directory / "ranks" / f"{rank}.json")
