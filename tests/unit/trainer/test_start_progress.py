"""Slow starts: reports of the ranks that have not started."""

import re
import socket
from pathlib import Path

import pytest

from orchestrator.launch_layout import Layout
from orchestrator.runs.run_record import START_SECONDS
from orchestrator.trainer.supervision.start_progress import Start
from tests import builders
from tests.stand_ins import supervised_run
from tests.unit.conftest import Start as Process


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return supervised_run.directory(tmp_path)


def layout(hosts: list[str], seconds: float) -> Layout:
    return Layout({}, hosts, "lo", 1, seconds, {})


def started(run_directory: Path, *ranks: int) -> None:
    for rank in ranks:
        builders.rank(rank).write(run_directory / "ranks" / f"{rank}.json")


def test_ranks_without_a_record_are_named_with_their_hosts(run_directory: Path) -> None:
    start = Start(run_directory, layout(["127.0.0.1", "127.0.0.2", "127.0.0.2"], 60.0))
    started(run_directory, 1)
    assert start.describe(start.missing(), 12.0) == (
        "1 of 3 ranks have started after 12 s; not yet: rank 0 on 127.0.0.1, rank 2 on 127.0.0.2"
    )


def test_only_some_of_many_ranks_are_named(run_directory: Path) -> None:
    start = Start(run_directory, layout([f"10.0.0.{number}" for number in range(64)], 9.0))
    output = start.describe(start.missing(), 12.0)
    assert output.startswith("0 of 64 ranks")
    assert output.endswith("rank 7 on 10.0.0.7, 56 more")


def test_allowed_time_grows_with_the_ranks() -> None:
    seconds = [builders.run(np=np).start_seconds for np in (2, 64)]
    assert seconds[0] < seconds[1]
    assert seconds[1] >= START_SECONDS + 64 * 3


def test_slow_start_is_reported_and_a_late_one_fails(start: Process, run_directory: Path) -> None:
    started(run_directory, 0, 2)
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.2"]
    (run_directory / "launch.json").write_text(layout(hosts, 2.0).text())
    launcher = ["-c", "import time; time.sleep(60)"]
    assert supervised_run.supervise(start, run_directory, *launcher, by=supervised_run.IN_HASTE).wait(timeout=30) != 0
    status = supervised_run.status(run_directory)
    assert status.failure
    assert (status.failure.reason, status.failure.host) == ("start", socket.gethostname())
    after = r"2 of 3 ranks have started after (\d+) s; not yet: rank 1 on 127\.0\.0\.2"  # later on a busy machine
    late = re.search(after, status.failure.lines[0])
    assert late
    assert int(late[1]) >= 2
    reported = re.search(after, (run_directory / "log").read_text())
    assert reported
    assert 1 <= int(reported[1]) <= int(late[1])
