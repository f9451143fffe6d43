"""First failure of a run, found in the ranks' records and the log."""

import os
import resource
import shutil
import socket
from pathlib import Path

import pytest

from orchestrator.schema import RunStatus, log_lines
from orchestrator.trainer.supervision import first_failure, rank_record
from tests import builders

LOG = [
    "[0]<stdout>:epoch 1",
    "[1]<stderr>:Traceback (most recent call last):",
    "[1]<stderr>:ValueError: negative weight",
    "[0]<stderr>:horovod.common.exceptions.HorovodInternalError: Horovod has been shut down",
    "a line without a rank",
]


def test_rank_that_failed_first_is_the_cause() -> None:
    records = [builders.rank(0, exit_code=1, ended=5.0), builders.rank(1, exit_code=3, ended=4.0), builders.rank(2)]
    failure = first_failure.first_failure(records, LOG, gone=[])
    assert (failure.reason, failure.rank, failure.host, failure.exit_code) == ("rank", 1, "host-1", 3)
    assert failure.lines == ["Traceback (most recent call last):", "ValueError: negative weight"]


def test_rank_that_failed_first_is_found_if_the_clocks_of_hosts_differ(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    for rank, ended, written in ((0, 4.0, 12.0), (1, 70.0, 10.0)):  # the clock of host-1 is a minute fast
        path = tmp_path / "ranks" / f"{rank}.json"
        builders.rank(rank, exit_code=1, ended=ended).write(path)
        os.utime(path, (written, written))
    assert first_failure.first_failure(rank_record.read_all(tmp_path), [], gone=[]).rank == 1


def test_rank_that_followed_another_is_not_the_cause() -> None:
    records = [builders.rank(0, exit_code=1, ended=4.0), builders.rank(1, exit_code=3, ended=5.0)]
    assert first_failure.first_failure(records, LOG, gone=[]).rank == 1


@pytest.mark.parametrize("words", first_failure.FOLLOWERS)
def test_messages_of_followers_are_recognised(words: str) -> None:
    log = [f"[0]<stderr>:error: {words}.", "[1]<stderr>:the cause"]
    records = [builders.rank(0, exit_code=1, ended=1.0), builders.rank(1, exit_code=1, ended=9.0)]
    assert first_failure.first_failure(records, log, gone=[]).rank == 1


def test_earliest_rank_is_named_if_all_followed() -> None:
    log = [f"[{rank}]<stderr>:Connection reset by peer" for rank in range(2)]
    records = [builders.rank(0, exit_code=1, ended=5.0), builders.rank(1, exit_code=1, ended=4.0)]
    assert first_failure.first_failure(records, log, gone=[]).rank == 1


def test_rank_ended_by_the_launcher_is_not_the_cause() -> None:
    records = [builders.rank(0, exit_code=143, ended=1.0, terminated=True), builders.rank(1, exit_code=1, ended=2.0)]
    assert first_failure.first_failure(records, [], gone=[]).rank == 1


def test_rank_that_raised_is_the_cause_if_a_follower_exits_first() -> None:
    records = [builders.rank(0, exit_code=1, ended=1.0), builders.rank(1, exit_code=143, ended=2.0, terminated=True)]
    log = ["[0]<stderr>:Horovod has been shut down", "[1]<stderr>:Traceback (most recent call last):",
           "[1]<stderr>:ValueError: no"]  # fmt: skip
    failure = first_failure.first_failure(records, log, [])
    assert (failure.rank, failure.exit_code, failure.lines[-1]) == (1, None, "ValueError: no")


def test_host_whose_agent_was_killed_is_named() -> None:
    records = [builders.rank(rank, exit_code=143, ended=1.0, terminated=True) for rank in range(2)]
    log = ["[0]<stdout>:step 1", "the agent on 10.0.0.12 was killed, or the connection to it was lost (exit code 255)"]
    failure = first_failure.first_failure(records, log, gone=[])
    assert (failure.reason, failure.host, failure.lines) == ("launcher", "10.0.0.12", log)


def test_lost_host_is_the_cause_before_any_rank() -> None:
    failure = first_failure.first_failure([builders.rank(0, exit_code=1)], LOG, gone=["10.0.0.11", "10.0.0.12"])
    assert (failure.reason, failure.host, failure.rank) == ("host", "10.0.0.11", None)
    assert failure.hosts == ["10.0.0.11", "10.0.0.12"]


def test_rank_whose_wrapper_was_killed_is_the_cause() -> None:
    records = [builders.rank(0, exit_code=143, ended=2.0, terminated=True), builders.rank(1, exit_code=None)]
    failure = first_failure.first_failure(records, LOG, gone=[])
    assert (failure.reason, failure.rank, failure.host, failure.exit_code) == ("rank", 1, "host-1", 137)


def test_killed_wrapper_is_the_cause_before_ranks_that_followed() -> None:
    """Its node restarted at once, so that it takes connections again, and reset those of the other ranks."""
    log = ["[0]<stderr>:HorovodInternalError: Connection reset by peer", "[2]<stdout>:step 1"]
    records = [builders.rank(0, exit_code=1, ended=4.0), *(builders.rank(rank, exit_code=None) for rank in (2, 1))]
    failure = first_failure.first_failure(records, log, gone=[])
    assert (failure.rank, failure.host, failure.exit_code) == (1, "host-1", 137)


@pytest.mark.parametrize("records", [[], [builders.rank(0)]])
def test_launcher_is_the_cause_if_no_rank_failed(records: list[object]) -> None:
    log = [f"line {number}" for number in range(100)]
    failure = first_failure.first_failure(records, log, gone=[])  # type: ignore[arg-type]
    assert (failure.reason, failure.host) == ("launcher", socket.gethostname())
    assert failure.lines == [f"line {number}" for number in range(70, 100)]


def test_lines_of_a_rank_are_its_last_thirty() -> None:
    log = [f"[{number % 2}]<stdout>:line {number}" for number in range(100)]
    assert list(first_failure.last_lines(log)[1]) == [f"line {number}" for number in range(41, 100, 2)]


def test_lines_of_a_rank_are_found_by_tags_of_open_mpi() -> None:
    log = log_lines.whole(["[1,1]<stdout>:half [1,0]<stdout>:zero", "[1,1]<stdout>:a line", "[1,11]<stderr>:eleven"])
    assert {rank: list(lines) for rank, lines in first_failure.last_lines(log).items()} == {
        0: ["zero"],
        1: ["half a line"],
        11: ["eleven"],
    }


def test_rank_without_output_has_no_lines() -> None:
    assert list(first_failure.last_lines(LOG)[7]) == []


def test_ray_worker_is_the_cause_if_the_script_names_its_rank() -> None:
    log = [
        "[0]<stderr>:(TrainController pid=45) - (ip=10.0.0.10, pid=46) world_rank=0, local_rank=0, node_rank=0",
        "[0]<stderr>:(TrainController pid=45) - (ip=10.0.0.11, pid=85) world_rank=1, local_rank=0, node_rank=1",
        "[0]<stderr>:ray.train.WorkerGroupError: Training failed due to worker errors:",
        "[0]<stderr>:[Rank 1 Error Snippet]:",
    ]
    driver = first_failure.first_failure([builders.rank(0, exit_code=1)], log, gone=[])
    failure = first_failure.of_ray(driver, log)
    assert (failure.rank, failure.host, failure.exit_code) == (1, "10.0.0.11", None)
    assert first_failure.of_ray(driver, log[2:]) == driver


def test_begin_and_end_of_a_long_log_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_failure, "BEGIN_BYTES", 10)
    monkeypatch.setattr(first_failure, "END_BYTES", 20)
    lines = [f"line {number}" for number in range(10, 20)]  # of 8 bytes each
    (tmp_path / "log").write_text("\n".join(lines))
    assert first_failure.read_ends(tmp_path / "log") == ["line 10", "li", "line 18", "line 19"]


@pytest.mark.parametrize("size", [0, 9, 10, 11, 29, 30])
def test_log_that_is_not_long_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(first_failure, "BEGIN_BYTES", 10)
    monkeypatch.setattr(first_failure, "END_BYTES", 20)
    text = ("12345\n" * 6)[:size]
    (tmp_path / "log").write_text(text)
    assert first_failure.read_ends(tmp_path / "log") == text.splitlines()


def test_line_ends_only_at_newlines_and_carriage_returns(tmp_path: Path) -> None:
    """Texts of data sets have other separators, and an error may quote one."""
    (tmp_path / "log").write_text("[0]<stderr>:bad row 'a\u2028b\x85c\x0cd'\n[1]<stderr>:10%\r20%\r\n", newline="")
    lines = ["[0]<stderr>:bad row 'a\u2028b\x85c\x0cd'", "[1]<stderr>:10%", "20%"]
    assert first_failure.read_ends(tmp_path / "log") == lines


def test_end_of_a_long_line_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_failure, "BEGIN_BYTES", 2)
    monkeypatch.setattr(first_failure, "END_BYTES", 4)
    (tmp_path / "log").write_text("a line without an end")
    assert first_failure.read_ends(tmp_path / "log") == ["a ", " end"]


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a run on a storage that has no space but the reserve's."""
    usage = shutil.disk_usage
    (tmp_path / "ranks").mkdir()
    (tmp_path / "log").write_text("[0]<stdout>:epoch 1\n")
    first_failure.reserve_space(tmp_path)
    assert (tmp_path / first_failure.RESERVE).stat().st_size == first_failure.RESERVE_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=4096))
    return tmp_path


def test_reserve_is_removed_before_the_status_is_written(full: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))  # bytes of a file: the status cannot be written
    try:
        with pytest.raises(OSError, match="File too large"):
            first_failure.write(full, 1.0, first_failure.LauncherEnd(0, False, "", [], []))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in full.iterdir() if path.is_file()] == ["log"]


@pytest.mark.parametrize(("recorded", "told"), [(3, 3), (None, None)])
def test_full_storage_is_the_cause_and_leaves_a_status(full: Path, recorded: int | None, told: int | None) -> None:
    """A wrapper that could not complete its record was not necessarily killed."""
    builders.rank(0, exit_code=recorded).write(full / "ranks" / "0.json")
    assert first_failure.write(full, 1.0, first_failure.LauncherEnd(1, False, "", [], [])) == 1
    failure = RunStatus.model_validate_json((full / "status.json").read_text()).failure
    assert failure is not None
    assert (failure.rank, failure.exit_code, failure.lines) == (0, told, ["epoch 1", "no space left on /shared"])


def test_ranks_that_cannot_start_on_a_full_storage_name_it(full: Path) -> None:
    late = "0 of 1 ranks have started after 60 s"
    first_failure.write(full, 1.0, first_failure.LauncherEnd(1, False, late, [], []))
    failure = RunStatus.model_validate_json((full / "status.json").read_text()).failure
    assert failure is not None
    assert (failure.reason, failure.lines) == ("start", [late, "no space left on /shared"])


def test_run_that_succeeds_on_a_full_storage_has_finished(full: Path) -> None:
    first_failure.write(full, 1.0, first_failure.LauncherEnd(0, False, "", [], []))
    status = RunStatus.model_validate_json((full / "status.json").read_text())
    assert (status.state, status.failure) == ("finished", None)


def test_run_without_a_reserve_gets_a_status(tmp_path: Path) -> None:
    first_failure.write(tmp_path, 1.0, first_failure.LauncherEnd(0, False, "", [], []))
    assert (tmp_path / "status.json").exists()
