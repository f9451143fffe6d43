"""Status of a run after its launcher has ended."""

import json
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests import waiting
from tests.stand_ins import supervised_run, wrapped_rank
from tests.unit.conftest import Start


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return supervised_run.directory(tmp_path)


def test_run_whose_ranks_succeed_has_finished(start: Start, run_directory: Path) -> None:
    assert (
        supervised_run.supervise(
            start, run_directory, "-c", supervised_run.LAUNCH, str(run_directory), "print('trained')"
        ).wait()
        == 0
    )
    status = supervised_run.status(run_directory)
    assert (status.state, status.exit_code, status.failure, status.left) == ("finished", 0, None, [])
    assert status.started <= status.ended
    assert (run_directory / "log").read_text() == "[0]<stdout>:trained\n"


def test_run_fails_with_the_reason_of_its_rank(start: Start, run_directory: Path) -> None:
    code = "raise SystemExit('no such file: weights')"
    assert (
        supervised_run.supervise(start, run_directory, "-c", supervised_run.LAUNCH, str(run_directory), code).wait()
        == 1
    )
    status = supervised_run.status(run_directory)
    assert (status.state, status.exit_code) == ("failed", 1)
    assert status.failure is not None
    assert (status.failure.reason, status.failure.rank, status.failure.host) == ("rank", 0, socket.gethostname())
    assert status.failure.lines == ["no such file: weights"]


def test_failure_of_the_launcher_differs_from_that_of_a_rank(start: Start, run_directory: Path) -> None:
    assert supervised_run.supervise(start, run_directory, "-c", "raise SystemExit('cannot reach 10.0.0.9')").wait() == 1
    status = supervised_run.status(run_directory)
    assert status.failure is not None
    assert (status.failure.reason, status.failure.lines) == ("launcher", ["cannot reach 10.0.0.9"])


def test_killed_launcher_exits_with_128_plus_signal(start: Start, run_directory: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert supervised_run.supervise(start, run_directory, "-c", code).wait() == 128 + signal.SIGKILL
    assert supervised_run.status(run_directory).state == "failed"


def test_missing_launcher_is_a_launcher_failure(start: Start, run_directory: Path) -> None:
    (run_directory / "command.json").write_text('["/no/such/horovodrun"]')
    log = run_directory / "log"
    process = start(*supervised_run.AS_INSTALLED, str(run_directory), output=log, ORCHESTRATOR_RUN=run_directory.name)
    assert process.wait() == 127
    failure = supervised_run.status(run_directory).failure
    assert failure is not None
    assert (failure.reason, failure.lines) == ("launcher", ["/no/such/horovodrun: No such file or directory"])


def test_space_for_the_status_is_reserved_while_a_run_lasts(start: Start, run_directory: Path) -> None:
    process = supervised_run.supervise(start, run_directory, "-c", wrapped_rank.SLEEP)
    assert waiting.until((run_directory / ".reserve").exists)
    process.terminate()
    process.wait()
    assert supervised_run.status(run_directory).state == "stopped"
    assert not (run_directory / ".reserve").exists()


def test_log_without_space_does_not_end_a_run(start: Start, run_directory: Path) -> None:
    """The log is /dev/full: the supervisor reports there that a rank has not started."""
    code = "import time; time.sleep(3); raise SystemExit(3)"
    (run_directory / "command.json").write_text(json.dumps([sys.executable, "-c", code]))
    variables = {"ORCHESTRATOR_RUN": run_directory.name}
    process = start(*supervised_run.IN_HASTE, str(run_directory), output=Path("/dev/full"), **variables)
    process.wait()
    assert supervised_run.status(run_directory).exit_code == 3


def test_launcher_gets_its_arguments_unchanged(start: Start, run_directory: Path) -> None:
    words = ["two words", "$HOME", "${ORCHESTRATOR_RUN}", "it's", "Grüße", "%n", ""]
    supervised_run.supervise(start, run_directory, "-c", "import sys; print(ascii(sys.argv[1:]))", *words).wait()
    assert (run_directory / "log").read_text() == f"{words!a}\n"
