"""What the shim makes of a rank: its record, its exit code, its output."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from tests import waiting
from tests.stand_ins import shim
from tests.unit.conftest import Start


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return shim.directory(tmp_path)


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
    child = shim.python(start, run_directory, code)
    assert child.wait() == exit_code
    kept = shim.record(run_directory)
    assert (kept.rank, kept.host, kept.pid, kept.exit_code) == (3, socket.gethostname(), child.pid, exit_code)
    assert before <= kept.started <= (kept.ended or 0) <= time.time()
    assert not kept.terminated


def test_while_a_rank_runs_its_record_has_no_end(start: Start, run_directory: Path) -> None:
    child = shim.python(start, run_directory, shim.SLEEP)
    waiting.line(child)
    assert (shim.record(run_directory).ended, shim.record(run_directory).exit_code) == (None, None)


def test_a_rank_of_open_mpi_is_known_by_its_own_variable(start: Start, run_directory: Path) -> None:
    child = shim.python(start, run_directory, "pass", HOROVOD_RANK="", OMPI_COMM_WORLD_RANK="5")
    assert child.wait() == 0
    assert shim.record(run_directory, rank=5).rank == 5


def test_what_the_rank_writes_reaches_the_launcher_and_it_finds_its_own_mark(start: Start, run_directory: Path) -> None:
    child = shim.python(start, run_directory, "import os; print(os.environ['ORCHESTRATOR_RANK'])")
    assert waiting.line(child) == f"{run_directory.name}:3"


@pytest.mark.parametrize("word", ["two words", "$HOME", "it's", 'a "b"', "Grüße", "*", "", "a\nb", "-np", "--", "\\"])
def test_the_program_gets_its_arguments_as_they_were_written(start: Start, run_directory: Path, word: str) -> None:
    child = shim.python(start, run_directory, "import sys; print(ascii(sys.argv[1:]))", word)
    assert waiting.line(child) == ascii([word])


@pytest.mark.parametrize(("mode", "exit_code", "reason"), [(None, 127, "no such command"), (0o644, 126, "Permission")])
def test_a_program_that_cannot_be_executed_ends_as_in_a_shell(
    run_directory: Path, mode: int | None, exit_code: int, reason: str
) -> None:
    program = run_directory / "program"
    if mode is not None:
        program.touch(mode)
    said = shim.finished(run_directory, str(program))
    assert said.returncode == exit_code
    assert said.stderr.startswith(f"{program}: {reason}")
    assert socket.gethostname() in said.stderr
    assert (shim.record(run_directory).exit_code, shim.record(run_directory).terminated) == (exit_code, False)


def test_what_a_rank_writes_is_passed_on_at_once(start: Start, run_directory: Path) -> None:
    child = shim.python(start, run_directory, "import time; print('working', end='\\r', flush=True); time.sleep(60)")
    assert child.stdout is not None
    assert os.read(child.stdout.fileno(), 100) == b"working\r"


def test_a_line_is_passed_on_in_one_piece_and_a_beginning_after_a_moment(start: Start, run_directory: Path) -> None:
    code = "import sys, time; w = sys.stdout.write; f = sys.stdout.flush\n"
    code += "w('one'); f(); w(' line\\n'); f(); time.sleep(1); w('half'); f(); time.sleep(60)"
    child = shim.python(start, run_directory, code)
    assert child.stdout is not None
    assert [os.read(child.stdout.fileno(), 100) for _ in range(2)] == [b"one line\n", b"half"]


def test_what_a_rank_writes_is_passed_on_whole_and_each_stream_for_itself(run_directory: Path) -> None:
    code = "import sys; print('x' * 3_000_000, file=sys.stderr); print('y' * 3_000_000)"
    said = shim.finished(run_directory, sys.executable, "-c", code)
    assert (said.stdout, said.stderr) == ("y" * 3_000_000 + "\n", "x" * 3_000_000 + "\n")


def test_a_rank_that_exits_with_143_by_itself_was_not_ended_by_the_launcher(start: Start, run_directory: Path) -> None:
    assert shim.python(start, run_directory, "raise SystemExit(143)").wait() == 143
    assert (shim.record(run_directory).exit_code, shim.record(run_directory).terminated) == (143, False)


def test_a_launcher_that_asks_for_the_end_at_any_moment_gets_it(start: Start, run_directory: Path) -> None:
    """As early as the shim can be asked: its record is written before the rank is started."""
    child = shim.python(start, run_directory, shim.SLEEP)
    assert waiting.until((run_directory / "ranks" / "3.json").exists)
    child.terminate()
    assert child.wait() == 143
    assert shim.record(run_directory).terminated
