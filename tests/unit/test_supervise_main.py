"""The main process of a run's unit, as a process, with a small program in the launcher's place."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.schema import RunStatus
from tests import waiting
from tests.unit.conftest import Start

# A stand-in for horovodrun: starts one rank inside the shim and ends as it ends.
LAUNCH = """
import os, subprocess, sys
command = [sys.executable, "-m", "orchestrator.trainer.rank", sys.argv[1], "--", sys.executable, "-c", sys.argv[2]]
rank = subprocess.Popen(command, env={**os.environ, "HOROVOD_RANK": "0"}, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True)
for line in rank.stdout:
    print(f"[0]<stdout>:{line}", end="", flush=True)
sys.exit(rank.wait())
"""
SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
LEAVE_A_DAEMON = f"""
import subprocess, sys
daemon = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True, stdout=subprocess.PIPE, text=True)
print(daemon.stdout.readline(), end="")
"""


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    directory = tmp_path / f"run-{os.getpid()}-{tmp_path.name}"
    (directory / "ranks").mkdir(parents=True)
    (directory / "hostfile").write_text("127.0.0.1 slots=1\n")
    (directory / "log").touch()
    return directory


def supervise(start: Start, run_directory: Path, *launcher: str) -> "subprocess.Popen[str]":
    """The supervisor over a launcher that is Python with these arguments; both write to the run's log."""
    words = ["-m", "orchestrator.trainer.supervise", str(run_directory), "--", sys.executable, *launcher]
    return start(*words, output=run_directory / "log", ORCHESTRATOR_RUN=run_directory.name)


def status(run_directory: Path) -> RunStatus:
    return RunStatus.model_validate_json((run_directory / "status.json").read_text())


def pid_in_log(run_directory: Path) -> int:
    """The process id that a rank has written."""
    log = run_directory / "log"
    assert waiting.until(lambda: log.read_text().endswith("\n"))
    return int(log.read_text().rpartition(":")[2])


def test_a_run_whose_ranks_end_well_has_finished(start: Start, run_directory: Path) -> None:
    assert supervise(start, run_directory, "-c", LAUNCH, str(run_directory), "print('trained')").wait() == 0
    kept = status(run_directory)
    assert (kept.state, kept.exit_code, kept.failure, kept.left) == ("finished", 0, None, [])
    assert kept.started <= kept.ended
    assert (run_directory / "log").read_text() == "[0]<stdout>:trained\n"


def test_a_run_whose_rank_fails_has_failed_for_that_ranks_reason(start: Start, run_directory: Path) -> None:
    code = "raise SystemExit('no such file: weights')"
    assert supervise(start, run_directory, "-c", LAUNCH, str(run_directory), code).wait() == 1
    kept = status(run_directory)
    assert (kept.state, kept.exit_code) == ("failed", 1)
    assert kept.failure is not None
    assert (kept.failure.reason, kept.failure.rank, kept.failure.host) == ("rank", 0, socket.gethostname())
    assert kept.failure.lines == ["no such file: weights"]


def test_a_launcher_that_fails_by_itself_is_told_from_a_rank_that_fails(start: Start, run_directory: Path) -> None:
    assert supervise(start, run_directory, "-c", "raise SystemExit('cannot reach 10.0.0.9')").wait() == 1
    kept = status(run_directory)
    assert kept.failure is not None
    assert (kept.failure.reason, kept.failure.lines) == ("launcher", ["cannot reach 10.0.0.9"])


def test_a_launcher_that_is_killed_gives_128_and_its_signal(start: Start, run_directory: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert supervise(start, run_directory, "-c", code).wait() == 128 + signal.SIGKILL
    assert status(run_directory).state == "failed"


def test_a_run_that_is_stopped_leaves_no_process_and_has_no_failure(start: Start, run_directory: Path) -> None:
    supervisor = supervise(start, run_directory, "-c", LAUNCH, str(run_directory), SLEEP)
    rank = pid_in_log(run_directory)
    supervisor.terminate()
    supervisor.wait()
    kept = status(run_directory)
    assert (kept.state, kept.failure) == ("stopped", None)
    assert waiting.ends(rank)


@pytest.mark.parametrize("exit_code", [0, 3])
def test_what_a_launcher_leaves_in_sessions_of_its_own_is_swept(
    start: Start, run_directory: Path, exit_code: int
) -> None:
    supervisor = supervise(start, run_directory, "-c", f"{LEAVE_A_DAEMON}\nsys.exit({exit_code})")
    assert supervisor.wait() == exit_code
    assert waiting.ends(pid_in_log(run_directory))
