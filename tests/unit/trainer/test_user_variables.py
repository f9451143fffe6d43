"""Variables that a user sets for ranks, from their file to a rank, under a real supervisor."""

import json
import signal
from pathlib import Path

import pytest

from orchestrator.trainer.supervision import user_variables
from tests import waiting
from tests.stand_ins import supervised_run, wrapped_rank
from tests.unit.conftest import Start

VALUE = "of-the-user-8f3a61"
# Prints the length of the value, and the processes with the value in their command line.
SEARCH = """
import os, pathlib
value = os.environ["TOKEN"]
lines = {path.parent.name: path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")}
print(len(value), [pid for pid, line in lines.items() if value.encode() in line], flush=True)
"""


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    directory = supervised_run.directory(tmp_path)
    (directory / user_variables.FILE).write_text(json.dumps({"TOKEN": VALUE, "PATH": "/mine"}))
    return directory


def files_with_value(run_directory: Path) -> list[str]:
    return [path.name for path in run_directory.rglob("*") if path.is_file() and VALUE in path.read_text()]


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "os.kill(os.getpid(), 9)"])
def test_variable_reaches_the_rank_and_is_removed_with_the_run(start: Start, run_directory: Path, end: str) -> None:
    assert files_with_value(run_directory) == [user_variables.FILE]
    supervised_run.supervise(start, run_directory, "-c", supervised_run.LAUNCH, str(run_directory), SEARCH + end).wait()
    assert f"[0]<stdout>:{len(VALUE)} []\n" in (run_directory / "log").read_text()
    assert supervised_run.status(run_directory).state == ("failed" if end else "finished")
    assert files_with_value(run_directory) == []
    assert not (run_directory / user_variables.FILE).exists()


def test_variables_are_removed_when_a_run_is_stopped(start: Start, run_directory: Path) -> None:
    code = (supervised_run.LAUNCH, str(run_directory), wrapped_rank.SLEEP)
    process = supervised_run.supervise(start, run_directory, "-c", *code, by=supervised_run.IN_HASTE)
    assert waiting.until(lambda: "<stdout>" in (run_directory / "log").read_text())
    process.send_signal(signal.SIGTERM)
    process.wait()
    assert not (run_directory / user_variables.FILE).exists()


def test_variables_are_removed_when_the_launcher_cannot_start(start: Start, run_directory: Path) -> None:
    (run_directory / "command.json").write_text('["/no/such/horovodrun"]')
    start(*supervised_run.AS_INSTALLED, str(run_directory), ORCHESTRATOR_RUN=run_directory.name).wait()
    assert not (run_directory / user_variables.FILE).exists()


def test_rank_adds_the_variables_to_its_own(start: Start, tmp_path: Path) -> None:
    run_directory = wrapped_rank.directory(tmp_path)
    (run_directory / user_variables.FILE).write_text(json.dumps({"PATH": "/mine"}))
    child = wrapped_rank.python(
        start, run_directory, "import os; print(os.environ['PATH'], os.environ['ORCHESTRATOR_RANK'])"
    )
    assert waiting.read_line(child) == f"/mine {run_directory.name}:3"


def test_rank_without_variables_of_the_user_has_its_own(start: Start, tmp_path: Path) -> None:
    run_directory = wrapped_rank.directory(tmp_path)
    child = wrapped_rank.python(start, run_directory, "import os; print(os.environ.get('TOKEN'))")
    assert waiting.read_line(child) == "None"
