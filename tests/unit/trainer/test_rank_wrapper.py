"""Record and exit code of a rank in its wrapper."""

import signal
import socket
import time
from pathlib import Path

import pytest

from tests import waiting
from tests.stand_ins import wrapped_rank
from tests.unit.conftest import Start


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return wrapped_rank.directory(tmp_path)


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("import os; os.abort()", 128 + signal.SIGABRT),
    ],
)
def test_wrapper_exits_with_the_ranks_code_and_records_it(
    start: Start, run_directory: Path, code: str, exit_code: int
) -> None:
    before = time.time()
    child = wrapped_rank.python(start, run_directory, code)
    assert child.wait() == exit_code
    rank_record = wrapped_rank.record(run_directory)
    assert (rank_record.rank, rank_record.host, rank_record.pid, rank_record.exit_code) == (
        3,
        socket.gethostname(),
        child.pid,
        exit_code,
    )
    assert before <= rank_record.started <= (rank_record.ended or 0) <= time.time()
    assert not rank_record.terminated


def test_record_of_a_running_rank_has_no_end(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, wrapped_rank.SLEEP)
    waiting.read_line(child)
    assert (wrapped_rank.record(run_directory).ended, wrapped_rank.record(run_directory).exit_code) == (None, None)


def test_rank_of_open_mpi_is_read_from_its_variable(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, "pass", HOROVOD_RANK="", OMPI_COMM_WORLD_RANK="5")
    assert child.wait() == 0
    assert wrapped_rank.record(run_directory, rank=5).rank == 5


def test_output_reaches_the_launcher_and_the_mark_is_set(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(start, run_directory, "import os; print(os.environ['ORCHESTRATOR_RANK'])")
    assert waiting.read_line(child) == f"{run_directory.name}:3"


@pytest.mark.parametrize("word", ["two words", "$HOME", "it's", 'a "b"', "Grüße", "*", "", "a\nb", "-np", "--", "\\"])
def test_program_gets_its_arguments_unchanged(start: Start, run_directory: Path, word: str) -> None:
    child = wrapped_rank.python(start, run_directory, "import sys; print(ascii(sys.argv[1:]))", word)
    assert waiting.read_line(child) == ascii([word])


@pytest.mark.parametrize(("mode", "exit_code", "reason"), [(None, 127, "no such command"), (0o644, 126, "Permission")])
def test_unexecutable_program_exits_like_in_a_shell(
    run_directory: Path, mode: int | None, exit_code: int, reason: str
) -> None:
    program = run_directory / "program"
    if mode is not None:
        program.touch(mode)
    printed = wrapped_rank.finished(run_directory, str(program))
    assert printed.returncode == exit_code
    assert printed.stderr.startswith(f"{program}: {reason}")
    assert socket.gethostname() in printed.stderr
    assert (wrapped_rank.record(run_directory).exit_code, wrapped_rank.record(run_directory).terminated) == (
        exit_code,
        False,
    )


def test_rank_that_exits_with_143_is_not_terminated(start: Start, run_directory: Path) -> None:
    assert wrapped_rank.python(start, run_directory, "raise SystemExit(143)").wait() == 143
    assert (wrapped_rank.record(run_directory).exit_code, wrapped_rank.record(run_directory).terminated) == (143, False)


def test_launcher_can_end_the_rank_at_any_moment(start: Start, run_directory: Path) -> None:
    """The record is written before the rank is started, so the signal comes as early as possible."""
    child = wrapped_rank.python(start, run_directory, wrapped_rank.SLEEP)
    assert waiting.until((run_directory / "ranks" / "3.json").exists)
    child.terminate()
    assert child.wait() == 143
    assert wrapped_rank.record(run_directory).terminated
