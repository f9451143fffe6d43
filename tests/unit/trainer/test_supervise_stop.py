"""Stopped and ended runs leave no process, in bounded time."""

import signal
from pathlib import Path

import pytest

from tests import waiting
from tests.stand_ins import supervised_run, wrapped_rank
from tests.unit.conftest import StandIn, Start

LEAVE_A_DAEMON = f"""
import subprocess, sys
command = [sys.executable, "-c", {wrapped_rank.SLEEP!r}]
daemon = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
print(daemon.stdout.readline(), end="")
"""
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {wrapped_rank.SLEEP}"
# A rank that ends by itself on request, like the trainer.
HEEDS = """
import os, pathlib, sys, time
print(os.getpid(), flush=True)
while not pathlib.Path(os.environ["RUN_DIRECTORY"], "stop").exists():
    time.sleep(0.05)
sys.exit(75)
"""
LEAVE_AN_UNMARKED_PROCESS = f"""
import subprocess, sys
daemon = ["env", "-i", "setsid", "--fork", sys.executable, "-u", "-c", {wrapped_rank.SLEEP!r}]
subprocess.run(daemon, check=True)
"""


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return supervised_run.directory(tmp_path)


def test_stopped_run_leaves_no_process_and_no_failure(start: Start, run_directory: Path) -> None:
    process = supervised_run.supervise(
        start, run_directory, "-c", supervised_run.LAUNCH, str(run_directory), wrapped_rank.SLEEP
    )
    rank = supervised_run.pid_in_log(run_directory)
    process.terminate()
    process.wait()
    status = supervised_run.status(run_directory)
    assert (status.state, status.failure) == ("stopped", None)
    assert waiting.ends(rank)


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """Return the directory of a started run of the trainer."""
    run_directory = supervised_run.directory(tmp_path, trainer=True)
    (run_directory / "checkpoints").mkdir()
    return run_directory


def test_stopped_trainer_may_write_a_checkpoint(start: Start, training: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN_DIRECTORY", str(training))
    process = supervised_run.supervise(start, training, "-c", supervised_run.LAUNCH, str(training), HEEDS)
    supervised_run.pid_in_log(training)
    process.terminate()
    assert process.wait() == 75
    status = supervised_run.status(training)
    assert (status.state, status.exit_code, status.failure) == ("stopped", 75, None)
    assert not wrapped_rank.record(training, 0).terminated


ENDS_WELL = HEEDS.replace("sys.exit(75)", "sys.exit(0)")


def test_trainer_that_was_complete_when_the_stop_came_has_finished(
    start: Start, training: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_DIRECTORY", str(training))
    process = supervised_run.supervise(start, training, "-c", supervised_run.LAUNCH, str(training), ENDS_WELL)
    supervised_run.pid_in_log(training)
    process.terminate()
    assert process.wait() == 0
    assert supervised_run.status(training).state == "finished"


def test_script_that_ends_well_on_request_is_stopped(start: Start, run_directory: Path) -> None:
    code = "import os, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); "
    process = supervised_run.supervise(start, run_directory, "-c", code + wrapped_rank.SLEEP)
    supervised_run.pid_in_log(run_directory)
    process.terminate()
    assert process.wait() == 0
    assert supervised_run.status(run_directory).state == "stopped"


def test_trainer_that_does_not_end_by_itself_is_ended(start: Start, training: Path) -> None:
    process = supervised_run.supervise(
        start, training, "-c", supervised_run.LAUNCH, str(training), wrapped_rank.SLEEP, by=supervised_run.IN_HASTE
    )
    rank = supervised_run.pid_in_log(training)
    process.terminate()
    process.wait()
    assert waiting.ends(rank)
    assert supervised_run.status(training).state == "stopped"
    assert (training / "stop").exists()


def test_run_whose_nodes_shut_down_is_stopped(start: Start, training: Path) -> None:
    """Ranks then end with a checkpoint and their own exit code, and the launcher with another."""
    code = f"{supervised_run.LAUNCH.replace('rank.wait()', 'rank.wait() and 1')}"
    process = supervised_run.supervise(start, training, "-c", code, str(training), "raise SystemExit(75)")
    assert process.wait() == 75
    assert (supervised_run.status(training).state, supervised_run.status(training).failure) == ("stopped", None)


def test_script_with_exit_code_75_has_failed(start: Start, run_directory: Path) -> None:
    """Also if the run's directory has a file and a directory with names of the trainer's."""
    (run_directory / "config.json").touch()
    (run_directory / "checkpoints").mkdir()
    code = "raise SystemExit(75)"
    supervised_run.supervise(start, run_directory, "-c", supervised_run.LAUNCH, str(run_directory), code).wait()
    assert supervised_run.status(run_directory).state == "failed"


@pytest.mark.parametrize("exit_code", [0, 3])
def test_processes_in_other_sessions_are_swept(start: Start, run_directory: Path, exit_code: int) -> None:
    process = supervised_run.supervise(start, run_directory, "-c", f"{LEAVE_A_DAEMON}\nsys.exit({exit_code})")
    assert process.wait() == exit_code
    assert waiting.ends(supervised_run.pid_in_log(run_directory))


def test_processes_are_swept_if_the_storage_fails_meanwhile(start: Start, run_directory: Path) -> None:
    """The list of hosts is gone when the launcher ends, and the user's variables cannot be removed."""
    broken = "import os, sys; os.remove(sys.argv[1] + '/hostfile'); os.mkdir(sys.argv[1] + '/environment.json')"
    code = f"{LEAVE_A_DAEMON}\n{broken}"
    assert supervised_run.supervise(start, run_directory, "-c", code, str(run_directory)).wait() == 0
    assert waiting.ends(int((run_directory / "log").read_text().split()[0]))
    assert supervised_run.status(run_directory).state == "finished"


def test_unmarked_process_is_swept_on_the_head(start: Start, run_directory: Path) -> None:
    code = f"{LEAVE_AN_UNMARKED_PROCESS}\ninput()"
    process = supervised_run.supervise(start, run_directory, "-c", code)
    escaped = supervised_run.pid_in_log(run_directory)
    process.terminate()
    process.wait()
    assert waiting.ends(escaped)
    assert supervised_run.status(run_directory).state == "stopped"


def test_launcher_that_ignores_the_stop_is_killed(start: Start, run_directory: Path) -> None:
    process = supervised_run.supervise(start, run_directory, "-c", STUBBORN, by=supervised_run.IN_HASTE)
    launcher = supervised_run.pid_in_log(run_directory)
    process.terminate()
    assert process.wait() == 128 + signal.SIGKILL
    assert not waiting.is_running(launcher)
    assert supervised_run.status(run_directory).state == "stopped"


def test_run_stopped_at_its_start_is_stopped(start: Start, run_directory: Path) -> None:
    """The signal comes once a handler exists, before the launcher is started."""
    process = supervised_run.supervise(start, run_directory, "-c", wrapped_rank.SLEEP)
    assert waiting.until(lambda: catches_termination(process.pid))
    process.terminate()
    process.wait()
    assert supervised_run.status(run_directory).state == "stopped"


def catches_termination(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (signal.SIGTERM - 1))


FORBIDDEN = """
import os
def killpg(leader, number):
    raise PermissionError(1, "Operation not permitted")
os.killpg = killpg
"""


def test_process_of_root_in_the_launchers_group_does_not_lose_the_run(start: Start, run_directory: Path) -> None:
    """The kernel refuses the signal if only processes of others are left in the group, as those of sudo are."""
    by = ("-c", FORBIDDEN + supervised_run.HASTY)
    process = supervised_run.supervise(start, run_directory, "-c", f"{LEAVE_A_DAEMON}\nsys.exit(3)", by=by)
    assert process.wait() == 3
    assert supervised_run.status(run_directory).state == "failed"
    assert waiting.ends(supervised_run.pid_in_log(run_directory))


@pytest.mark.parametrize("here", [["127.0.0.1"], []])
def test_host_is_lost_only_if_ssh_fails(start: Start, stand_in: StandIn, run_directory: Path, here: list[str]) -> None:
    """Also if the head has no ranks and is not among the hosts."""
    stand_in(
        "ssh",
        'case "$*" in *10.0.0.4*) exit 255;; *10.0.0.3*) echo no room >&2; exit 1;; *.2*) exec /bin/sleep 60; esac',
    )
    hosts = [*here, *(f"10.0.0.{number}" for number in range(2, 5))]
    (run_directory / "hostfile").write_text("".join(f"{host} slots=1\n" for host in hosts))
    assert (
        supervised_run.supervise(start, run_directory, "-c", "raise SystemExit(1)", by=supervised_run.IN_HASTE).wait()
        == 1
    )
    status = supervised_run.status(run_directory)
    assert status.left == ["10.0.0.2", "10.0.0.4"]
    assert status.failure is not None
    assert (status.failure.reason, status.failure.host) == ("host", "10.0.0.4")
    assert "processes of the run may be left on 10.0.0.3: no room" in (run_directory / "log").read_text()
