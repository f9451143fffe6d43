"""The shim around a rank, run as the launcher runs it: a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.schema import RankRecord
from tests import waiting
from tests.unit.conftest import Start

SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
# A rank with a helper in a session of its own; both say their process id and then nothing any more.
WITH_A_DAEMON = f"""
import os, subprocess, sys, time
daemon = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True, stdout=subprocess.PIPE, text=True)
print(os.getpid(), daemon.stdout.readline(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    directory = tmp_path / f"run-{os.getpid()}-{tmp_path.name}"
    (directory / "ranks").mkdir(parents=True)
    return directory


def shim(start: Start, run_directory: Path, code: str, **environment: str) -> "subprocess.Popen[str]":
    """Rank 3 of a run, executing ``code``."""
    given = {"ORCHESTRATOR_RUN": run_directory.name, "HOROVOD_RANK": "3", **environment}
    return start("-m", "orchestrator.trainer.rank", str(run_directory), "--", sys.executable, "-c", code, **given)


def record(run_directory: Path, rank: int = 3) -> RankRecord:
    return RankRecord.model_validate_json((run_directory / "ranks" / f"{rank}.json").read_text())


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("import os; os.abort()", 128 + signal.SIGABRT),
    ],
)
def test_the_shim_ends_with_the_ranks_exit_code_and_keeps_it(
    start: Start, run_directory: Path, code: str, exit_code: int
) -> None:
    before = time.time()
    child = shim(start, run_directory, code)
    assert child.wait() == exit_code
    kept = record(run_directory)
    assert (kept.rank, kept.host, kept.pid, kept.exit_code) == (3, socket.gethostname(), child.pid, exit_code)
    assert before <= kept.started <= (kept.ended or 0) <= time.time()
    assert not kept.terminated


def test_while_a_rank_runs_its_record_has_no_end(start: Start, run_directory: Path) -> None:
    child = shim(start, run_directory, SLEEP)
    waiting.line(child)
    assert (record(run_directory).ended, record(run_directory).exit_code) == (None, None)


def test_a_rank_of_open_mpi_is_known_by_its_own_variable(start: Start, run_directory: Path) -> None:
    child = shim(start, run_directory, "pass", HOROVOD_RANK="", OMPI_COMM_WORLD_RANK="5")
    assert child.wait() == 0
    assert record(run_directory, rank=5).rank == 5


def test_what_the_rank_writes_reaches_the_launcher_and_it_finds_its_own_mark(start: Start, run_directory: Path) -> None:
    child = shim(start, run_directory, "import os; print(os.environ['ORCHESTRATOR_RANK'])")
    assert waiting.line(child) == f"{run_directory.name}:3"


def test_a_command_that_is_not_there_ends_with_127(start: Start, run_directory: Path) -> None:
    given = {"ORCHESTRATOR_RUN": run_directory.name, "HOROVOD_RANK": "0"}
    child = start("-m", "orchestrator.trainer.rank", str(run_directory), "--", "no-such-program", **given)
    assert child.wait() == 127
    assert record(run_directory, rank=0).exit_code == 127


def test_a_launcher_that_is_gone_ends_the_rank_and_its_daemon(start: Start, run_directory: Path) -> None:
    child = shim(start, run_directory, WITH_A_DAEMON)
    rank, daemon = map(int, waiting.line(child).split())
    assert child.stdout is not None
    child.stdout.close()
    assert waiting.ends(rank)
    assert waiting.ends(daemon)
    assert child.wait() == 143
    assert record(run_directory).terminated


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_launcher_that_asks_for_the_end_gets_it(start: Start, run_directory: Path, number: int) -> None:
    child = shim(start, run_directory, WITH_A_DAEMON)
    rank, daemon = map(int, waiting.line(child).split())
    child.send_signal(number)
    assert child.wait() == 143
    assert waiting.ends(rank)
    assert waiting.ends(daemon)
    assert record(run_directory).terminated


def test_a_daemon_does_not_outlive_the_rank_that_ends_by_itself(start: Start, run_directory: Path) -> None:
    child = shim(start, run_directory, WITH_A_DAEMON.replace("time.sleep(60)\n", ""))
    _, daemon = map(int, waiting.line(child).split())
    assert child.wait() == 0
    assert waiting.ends(daemon)
