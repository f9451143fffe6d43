"""Runs of a queue start one after another, despite failures, until the queue is stopped."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator import exit_codes
from orchestrator.schema import Queue, QueuedRun, RunStatus, Turn, bounded_files
from tests import waiting
from tests.stand_ins import supervised_run, wrapped_rank
from tests.unit.conftest import StandIn, Start

QUEUE = ("-m", "orchestrator.trainer.supervision.start_queued_runs")
SUPERVISOR = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"  # in a launcher: kills its supervisor


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    (tmp_path / "queue").mkdir()
    return tmp_path / "queue"


def fill(queue: Path, *launchers: list[str], hosts: Sequence[str] = ()) -> list[Path]:
    """Write a queue of runs whose launchers are Python with these arguments; return the directories of the runs."""
    runs = []
    for number, arguments in enumerate(launchers):
        parent = queue.parent / str(number)
        parent.mkdir()
        runs.append(supervised_run.directory(parent).rename(parent / f"run-{number}"))
        (runs[-1] / "command.json").write_text(json.dumps([sys.executable, *arguments]))
        (runs[-1] / "checkpoints").mkdir()
    queued = [
        QueuedRun(directory=str(run), workdir=str(run), environment={"ORCHESTRATOR_RUN": run.name}, hosts=list(hosts))
        for run in runs
    ]
    Queue(runs=queued).write(queue / "queue.json")
    return runs


def test_runs_start_in_order_and_a_failure_does_not_end_the_queue(start: Start, queue: Path) -> None:
    code = "import os; print(os.environ['ORCHESTRATOR_RUN'], os.environ.get('ORCHESTRATOR_ANYTHING'))"
    runs = fill(queue, ["-c", code], ["-c", "raise SystemExit(3)"], ["-c", code])
    environment = {"ORCHESTRATOR_RUN": "queue", "ORCHESTRATOR_ANYTHING": "1"}
    assert start(*QUEUE, str(queue), output=queue / "log", **environment).wait() == 0
    ends = [supervised_run.status(run) for run in runs]
    turns = [bounded_files.read_model(run / "turn.json", Turn) for run in runs]
    assert [end.state for end in ends] == ["finished", "failed", "finished"]
    assert all(turn.started <= end.started < end.ended for turn, end in zip(turns, ends, strict=True))
    assert all(end.ended < turn.started for end, turn in zip(ends, turns[1:], strict=False))
    assert [(run / "log").read_text() for run in (runs[0], runs[2])] == ["run-0 None\n", "run-2 None\n"]
    assert not any((run / "checkpoints").exists() for run in runs)
    assert (queue / "log").read_text() == "1 of 3: run-0: finished\n2 of 3: run-1: failed\n3 of 3: run-2: finished\n"
    assert bounded_files.read_model(queue / "status.json", RunStatus).state == "finished"


def test_run_with_a_killed_supervisor_fails_without_processes(start: Start, queue: Path) -> None:
    runs = fill(
        queue, ["-c", f"import os; print(os.getpid(), flush=True); {SUPERVISOR}; {wrapped_rank.SLEEP}"], ["-c", ""]
    )
    assert start(*QUEUE, str(queue), output=queue / "log").wait() == 0
    status = supervised_run.status(runs[0])
    assert (status.state, status.exit_code) == ("failed", 128 + signal.SIGKILL)
    assert waiting.ends(int((runs[0] / "log").read_text().split()[0]))
    assert supervised_run.status(runs[1]).state == "finished"


def test_stop_ends_the_current_run_and_starts_no_other(start: Start, queue: Path) -> None:
    runs = fill(queue, ["-c", f"import os; print(os.getpid(), flush=True); {wrapped_rank.SLEEP}"], ["-c", ""])
    process = start(*QUEUE, str(queue), output=queue / "log")
    assert waiting.until(lambda: (runs[0] / "log").read_text().endswith("\n"))
    process.terminate()
    assert process.wait() == exit_codes.RUN_STOPPED
    assert supervised_run.status(runs[0]).state == "stopped"
    assert bounded_files.read_model(queue / "status.json", RunStatus).state == "stopped"
    assert waiting.ends(int((runs[0] / "log").read_text().split()[0]))
    assert not (runs[1] / "turn.json").exists()


def test_stop_starts_no_other_run_though_the_current_one_left_no_status(start: Start, queue: Path) -> None:
    """As on a full storage: here, the directory of the run is gone."""
    started = queue / "started"
    code = f"import os, pathlib, shutil; shutil.rmtree(os.environ['RUN_DIR']); pathlib.Path({str(started)!r})"
    runs = fill(queue, ["-c", f"{code}.touch(); {wrapped_rank.SLEEP}"], ["-c", ""])
    process = start(*QUEUE, str(queue), output=queue / "log", RUN_DIR=str(runs[0]))
    assert waiting.until(started.exists)
    process.terminate()
    assert process.wait() == exit_codes.RUN_STOPPED
    assert not (runs[1] / "turn.json").exists()


def test_missing_run_is_skipped(start: Start, queue: Path) -> None:
    runs = fill(queue, ["-c", ""], ["-c", ""])
    runs[0].rename(queue.parent / "elsewhere")
    assert start(*QUEUE, str(queue), output=queue / "log").wait() == 0
    assert supervised_run.status(runs[1]).state == "finished"
    assert "No such file or directory" in (queue / "log").read_text()


@pytest.mark.parametrize(("name", "text"), [("status.json", "{"), ("launch.json", "[]"), ("ranks/0.json", "{}")])
def test_damaged_file_of_a_run_costs_no_other(start: Start, queue: Path, name: str, text: str) -> None:
    damage = f"import pathlib; pathlib.Path({str(queue.parent / '0' / 'run-0' / name)!r}).write_text({text!r})"
    runs = fill(queue, ["-c", f"{damage}; {SUPERVISOR}"], ["-c", ""])
    (runs[0] / "ranks").mkdir(exist_ok=True)
    assert start(*QUEUE, str(queue), output=queue / "log").wait() == 0
    assert supervised_run.status(runs[1]).state == "finished"
    assert "1 of 2: run-0: left no status" in (queue / "log").read_text()
    assert bounded_files.read_model(queue / "status.json", RunStatus).state == "finished"


@pytest.mark.parametrize("ssh", ["echo Welcome", "printf '\\377'", "exit 255", None])
def test_host_without_a_readable_load_costs_no_run(
    start: Start, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, queue: Path, ssh: str | None
) -> None:
    tools = os.environ["PATH"]
    if ssh:
        monkeypatch.setenv("PATH", f"{stand_in('ssh', ssh).parent}{os.pathsep}{tools}")
    else:  # no ssh at all
        monkeypatch.setenv("PATH", str(queue))
    runs = fill(queue, ["-c", ""], ["-c", ""], hosts=["10.0.0.3"])
    assert start(*QUEUE, str(queue), output=queue / "log").wait() == 0
    assert [supervised_run.status(run).state for run in runs] == ["finished", "finished"]
    assert bounded_files.read_model(runs[0] / "turn.json", Turn).busy == 0.0


def test_log_without_room_does_not_end_the_queue(start: Start, queue: Path) -> None:
    runs = fill(queue, ["-c", ""], ["-c", ""])
    assert start(*QUEUE, str(queue), output=Path("/dev/full")).wait() == 0
    assert [supervised_run.status(run).state for run in runs] == ["finished", "finished"]
