"""No process of a rank outlives the rank or its launcher."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from orchestrator import grace_periods
from orchestrator.trainer.supervision.rank_record import RankRecord
from tests import waiting
from tests.stand_ins import wrapped_rank
from tests.unit.conftest import Start

# A rank with a helper in its own session; both print their process id and nothing else.
WITH_A_DAEMON = f"""
import os, subprocess, sys, time
command = [sys.executable, "-c", {wrapped_rank.SLEEP!r}]
daemon = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
print(os.getpid(), daemon.stdout.readline(), flush=True)
time.sleep(60)
"""
# A helper without the run's mark, in its own session and without a parent, which holds the rank's output.
WITH_AN_ESCAPED_PROCESS = f"""
import subprocess, sys
command = ["env", "-i", "setsid", "--fork", sys.executable, "-u", "-c", {wrapped_rank.SLEEP!r}]
subprocess.run(command, check=True)
sys.stdin.read()
"""
# A process outside of the rank that receives the rank's standard output over a socket and keeps it.
KEEP = """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as server:
    server.bind("\\0" + sys.argv[1])
    server.listen()
    print("listening", flush=True)
    kept = socket.recv_fds(server.accept()[0], 1, 1)
    time.sleep(60)
"""
HAND_OVER = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect("\\0" + sys.argv[1])
    socket.send_fds(client, [b"x"], [1])
print("handed over")
"""


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return wrapped_rank.directory(tmp_path)


def test_lost_launcher_ends_the_rank_and_its_daemon(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, WITH_A_DAEMON)
    rank, daemon = map(int, waiting.read_line(child).split())
    assert child.stdout is not None
    child.stdout.close()
    assert waiting.ends(rank)
    assert waiting.ends(daemon)
    assert child.wait() == 143
    assert wrapped_rank.record(run_directory).terminated


def test_rank_ends_with_a_killed_wrapper(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, WITH_A_DAEMON)
    rank, daemon = map(int, waiting.read_line(child).split())
    child.kill()
    assert waiting.ends(rank)
    os.kill(daemon, signal.SIGKILL)  # as the supervisor would


def in_own_group(start: Start, run_directory: Path, program: str) -> "subprocess.Popen[str]":
    """Start a wrapper outside of the group of the tests, which a signal to its group must not reach."""
    (run_directory / "program.json").write_text(json.dumps([sys.executable, "-c", program]))
    wrapper = ["-m", "orchestrator.trainer.supervision.rank_wrapper", str(run_directory)]
    in_session = f"import os; os.setsid(); os.execv({sys.executable!r}, {[sys.executable, *wrapper]!r})"
    return start("-c", in_session, ORCHESTRATOR_RUN=run_directory.name, HOROVOD_RANK=str(wrapped_rank.RANK))


@pytest.mark.parametrize(
    ("program", "exit_code"),
    [
        ("import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.killpg(0, signal.SIGTERM)", 0),
        ("import os; os.execvp('bash', ['bash', '-c', \"trap '' TERM; kill 0; exit 7\"])", 7),
        ("import os, signal; os.setpgrp(); os.killpg(0, signal.SIGKILL)", 137),
    ],
)
def test_signal_of_a_program_to_its_group_spares_the_wrapper(
    start: Start, run_directory: Path, program: str, exit_code: int
) -> None:
    child = in_own_group(start, run_directory, program)
    assert child.wait() == exit_code
    rank_record = wrapped_rank.record(run_directory)
    assert (rank_record.exit_code, rank_record.terminated) == (exit_code, False)


COUNTS = """
import signal, time
def count(*_):
    with open("received", "a") as file: file.write("x")
signal.signal(signal.SIGTERM, count)
print("ready", flush=True)
while True: time.sleep(60)
"""


def test_signal_to_the_group_of_the_wrapper_reaches_the_program_once(start: Start, run_directory: Path) -> None:
    """As a stop signals the group of the launcher, which has the wrappers of the head."""
    program = COUNTS.replace("received", str(run_directory / "received"))
    child = in_own_group(start, run_directory, program)
    assert waiting.read_line(child) == "ready"
    os.killpg(child.pid, signal.SIGTERM)
    assert child.wait(grace_periods.RANK + 10) == 143
    assert (run_directory / "received").read_text() == "x"


def test_exit_code_is_kept_if_the_launcher_hangs_up(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(
        start, run_directory, "import time; print('here', flush=True); time.sleep(0.5); exit(7)"
    )
    assert waiting.read_line(child) == "here"
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait() == wrapped_rank.record(run_directory).exit_code == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_of_the_launcher_ends_the_rank(start: Start, run_directory: Path, number: int) -> None:
    child = wrapped_rank.python(start, run_directory, WITH_A_DAEMON)
    rank, daemon = map(int, waiting.read_line(child).split())
    child.send_signal(number)
    assert child.wait() == 143
    assert waiting.ends(rank)
    assert waiting.ends(daemon)
    assert wrapped_rank.record(run_directory).terminated


def test_daemon_ends_with_its_rank(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, WITH_A_DAEMON.replace("time.sleep(60)\n", ""))
    _, daemon = map(int, waiting.read_line(child).split())
    assert child.wait() == 0
    assert waiting.ends(daemon)


def test_daemon_ends_with_its_rank_if_the_record_cannot_be_written(start: Start, run_directory: Path) -> None:
    """As on a full disk: here, the rank has removed the directory of the records."""
    code = WITH_A_DAEMON.replace("time.sleep(60)\n", "import shutil; shutil.rmtree(sys.argv[1]); sys.exit(7)")
    child = wrapped_rank.python(start, run_directory, code, str(run_directory / "ranks"))
    _, daemon = map(int, waiting.read_line(child).split())
    assert child.wait() == 7
    assert waiting.ends(daemon)


# The wrapper on a storage that no longer answers when the rank ends, as NFS of a head that is gone.
WITHOUT_STORAGE = """
import pathlib, sys, time
from orchestrator.trainer.supervision import rank_wrapper
from orchestrator.trainer.supervision.rank_record import RankRecord
write = RankRecord.write
RankRecord.write = lambda record, path: time.sleep(600) if record.ended else write(record, path)
sys.exit(rank_wrapper.main(pathlib.Path(sys.argv[1])))
"""


def test_lost_head_ends_the_rank_though_its_storage_does_not_answer(start: Start, run_directory: Path) -> None:
    (run_directory / "program.json").write_text(json.dumps([sys.executable, "-c", WITH_A_DAEMON]))
    variables = {"ORCHESTRATOR_RUN": run_directory.name, "HOROVOD_RANK": str(wrapped_rank.RANK)}
    child = start("-c", WITHOUT_STORAGE, str(run_directory), **variables)
    rank, daemon = map(int, waiting.read_line(child).split())
    assert child.stdout is not None
    child.stdout.close()
    assert waiting.ends(rank)
    assert waiting.ends(daemon)
    assert child.wait(60) == 143


def test_unmarked_orphan_in_another_session_ends_with_the_rank(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, WITH_AN_ESCAPED_PROCESS)
    escaped = int(waiting.read_line(child))
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait() == 0
    assert waiting.ends(escaped)


def test_unmarked_process_ends_when_the_launcher_is_gone(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, WITH_AN_ESCAPED_PROCESS)
    escaped = int(waiting.read_line(child))
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait() == 143
    assert waiting.ends(escaped)


def test_process_that_holds_the_output_does_not_block_the_launcher(start: Start, run_directory: Path) -> None:
    """Even if it cannot be found: another process inherited the rank's end of the pipe."""
    keeper = start("-c", KEEP, run_directory.name)
    waiting.read_line(keeper)
    child = wrapped_rank.python(start, run_directory, HAND_OVER, run_directory.name)
    assert child.communicate(timeout=waiting.DEADLINE)[0] == "handed over\n"
    assert waiting.is_running(keeper.pid)


def test_ended_orphans_are_reaped_while_the_rank_runs(start: Start, run_directory: Path) -> None:
    code = "import subprocess, time; subprocess.run(['setsid', '--fork', 'true']); print('done'); time.sleep(60)"
    child = wrapped_rank.python(start, run_directory, code)
    waiting.read_line(child)
    shim_process = psutil.Process(child.pid)
    assert waiting.until(lambda: len(shim_process.children(recursive=True)) == 1)


def test_stubborn_process_is_killed_before_mpi_kills_the_wrapper(start: Start, run_directory: Path) -> None:
    """The wrapper has one second, of which this takes half; the launcher for Gloo gives five."""
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {wrapped_rank.SLEEP}"
    child = wrapped_rank.python(start, run_directory, code, HOROVOD_RANK="", OMPI_COMM_WORLD_RANK="3")
    stubborn = int(waiting.read_line(child))
    child.terminate()
    child.wait(60)
    assert waiting.ends(stubborn)
    assert grace_periods.MPI_RANK < 1.0


SAVES = """
import signal, time
def save(*_):
    time.sleep(1)
    raise SystemExit(75)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
time.sleep(60)
"""


OF_OPEN_MPI = {"HOROVOD_RANK": "", "OMPI_COMM_WORLD_RANK": "3"}


@pytest.mark.parametrize(
    ("is_trainer", "added", "exit_code"),
    [
        (True, {"SSH_CONNECTION": "10.0.0.10 1 10.0.0.11 22"}, 75),
        (False, {"SSH_CONNECTION": "10.0.0.10 1 10.0.0.11 22"}, 143),
        (True, {"SSH_CONNECTION": "x", **OF_OPEN_MPI}, 75),
        (False, {"SSH_CONNECTION": "x", **OF_OPEN_MPI}, 143),
        (True, {"SSH_CONNECTION": ""}, 143),
    ],
)
def test_trainer_gets_time_to_end_and_a_script_does_not(
    start: Start, tmp_path: Path, is_trainer: bool, added: dict[str, str], exit_code: int
) -> None:
    """Nor does a rank on the host of horovodrun, which sends signals to the ranks of its own node."""
    run_directory = wrapped_rank.directory(tmp_path, trainer=is_trainer)
    (run_directory / "config.json").touch()  # a script may write a file of this name, too
    child = wrapped_rank.python(start, run_directory, SAVES, **added)
    assert waiting.read_line(child) == "training"
    child.terminate()
    assert child.wait(60) == exit_code
    assert (wrapped_rank.record(run_directory).exit_code, wrapped_rank.record(run_directory).terminated) == (
        exit_code,
        True,
    )


@pytest.mark.parametrize("asks", ["stop", "ranks/0.json"])
def test_open_mpi_that_ends_a_run_itself_gives_no_time(start: Start, tmp_path: Path, asks: str) -> None:
    """If the run is stopped or a rank has ended: only then mpirun sends the signal."""
    run_directory = wrapped_rank.directory(tmp_path, trainer=True)
    child = wrapped_rank.python(start, run_directory, SAVES, **OF_OPEN_MPI)
    assert waiting.read_line(child) == "training"
    record = RankRecord(rank=0, host="x", pid=1, started=1.0, ended=2.0, exit_code=1)
    record.write(run_directory / asks)
    child.terminate()
    assert child.wait(60) == 143


def test_trainer_has_no_time_left_once_the_launcher_is_gone(start: Start, tmp_path: Path) -> None:
    run_directory = wrapped_rank.directory(tmp_path, trainer=True)
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {wrapped_rank.SLEEP}"
    child = wrapped_rank.python(start, run_directory, code, SSH_CONNECTION="x")
    stubborn = int(waiting.read_line(child))
    child.terminate()
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(grace_periods.RANK + 10) == 143
    assert waiting.ends(stubborn)
