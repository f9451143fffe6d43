"""First failure of a run, found in the ranks' records and the log."""

import socket

import pytest

from orchestrator.schema import log_lines
from orchestrator.trainer.supervision import diagnosis
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
    failure = diagnosis.first_failure(records, LOG, gone=[])
    assert (failure.reason, failure.rank, failure.host, failure.exit_code) == ("rank", 1, "host-1", 3)
    assert failure.lines == ["Traceback (most recent call last):", "ValueError: negative weight"]


def test_rank_that_followed_another_is_not_the_cause() -> None:
    records = [builders.rank(0, exit_code=1, ended=4.0), builders.rank(1, exit_code=3, ended=5.0)]
    assert diagnosis.first_failure(records, LOG, gone=[]).rank == 1


@pytest.mark.parametrize("words", diagnosis.FOLLOWERS)
def test_messages_of_followers_are_recognised(words: str) -> None:
    log = [f"[0]<stderr>:error: {words}.", "[1]<stderr>:the cause"]
    records = [builders.rank(0, exit_code=1, ended=1.0), builders.rank(1, exit_code=1, ended=9.0)]
    assert diagnosis.first_failure(records, log, gone=[]).rank == 1


def test_earliest_rank_is_named_if_all_followed() -> None:
    log = [f"[{rank}]<stderr>:Connection reset by peer" for rank in range(2)]
    records = [builders.rank(0, exit_code=1, ended=5.0), builders.rank(1, exit_code=1, ended=4.0)]
    assert diagnosis.first_failure(records, log, gone=[]).rank == 1


def test_rank_ended_by_the_launcher_is_not_the_cause() -> None:
    records = [builders.rank(0, exit_code=143, ended=1.0, terminated=True), builders.rank(1, exit_code=1, ended=2.0)]
    assert diagnosis.first_failure(records, [], gone=[]).rank == 1


def test_rank_that_raised_is_the_cause_if_a_follower_exits_first() -> None:
    records = [builders.rank(0, exit_code=1, ended=1.0), builders.rank(1, exit_code=143, ended=2.0, terminated=True)]
    log = ["[0]<stderr>:Horovod has been shut down", "[1]<stderr>:Traceback (most recent call last):",
           "[1]<stderr>:ValueError: no"]  # fmt: skip
    failure = diagnosis.first_failure(records, log, [])
    assert (failure.rank, failure.exit_code, failure.lines[-1]) == (1, None, "ValueError: no")


def test_host_whose_agent_was_killed_is_named() -> None:
    records = [builders.rank(rank, exit_code=143, ended=1.0, terminated=True) for rank in range(2)]
    log = ["[0]<stdout>:step 1", "the agent on 10.0.0.12 was killed, or the connection to it was lost (exit code 255)"]
    failure = diagnosis.first_failure(records, log, gone=[])
    assert (failure.reason, failure.host, failure.lines) == ("launcher", "10.0.0.12", log)


def test_lost_host_is_the_cause_before_any_rank() -> None:
    failure = diagnosis.first_failure([builders.rank(0, exit_code=1)], LOG, gone=["10.0.0.11", "10.0.0.12"])
    assert (failure.reason, failure.host, failure.rank) == ("host", "10.0.0.11", None)


def test_rank_whose_wrapper_was_killed_is_the_cause() -> None:
    records = [builders.rank(0, exit_code=143, ended=2.0, terminated=True), builders.rank(1, exit_code=None)]
    failure = diagnosis.first_failure(records, LOG, gone=[])
    assert (failure.reason, failure.rank, failure.host, failure.exit_code) == ("rank", 1, "host-1", 137)


@pytest.mark.parametrize("records", [[], [builders.rank(0)]])
def test_launcher_is_the_cause_if_no_rank_failed(records: list[object]) -> None:
    log = [f"line {number}" for number in range(100)]
    failure = diagnosis.first_failure(records, log, gone=[])  # type: ignore[arg-type]
    assert (failure.reason, failure.host) == ("launcher", socket.gethostname())
    assert failure.lines == [f"line {number}" for number in range(70, 100)]


def test_lines_of_a_rank_are_its_last_thirty() -> None:
    log = [f"[{number % 2}]<stdout>:line {number}" for number in range(100)]
    assert diagnosis.lines_of(log, 1) == [f"line {number}" for number in range(41, 100, 2)]


def test_lines_of_a_rank_are_found_by_tags_of_open_mpi() -> None:
    log = log_lines.whole(["[1,1]<stdout>:half [1,0]<stdout>:zero", "[1,1]<stdout>:a line", "[1,11]<stderr>:eleven"])
    assert diagnosis.lines_of(log, 0) == ["zero"]
    assert diagnosis.lines_of(log, 1) == ["half a line"]
    assert diagnosis.lines_of(log, 11) == ["eleven"]


def test_rank_without_output_has_no_lines() -> None:
    assert diagnosis.lines_of(LOG, 7) == []


def test_ray_worker_is_the_cause_if_the_script_names_its_rank() -> None:
    log = [
        "[0]<stderr>:(TrainController pid=45) - (ip=10.0.0.10, pid=46) world_rank=0, local_rank=0, node_rank=0",
        "[0]<stderr>:(TrainController pid=45) - (ip=10.0.0.11, pid=85) world_rank=1, local_rank=0, node_rank=1",
        "[0]<stderr>:ray.train.WorkerGroupError: Training failed due to worker errors:",
        "[0]<stderr>:[Rank 1 Error Snippet]:",
    ]
    driver = diagnosis.first_failure([builders.rank(0, exit_code=1)], log, gone=[])
    failure = diagnosis.of_ray(driver, log)
    assert (failure.rank, failure.host, failure.exit_code) == (1, "10.0.0.11", None)
    assert diagnosis.of_ray(driver, log[2:]) == driver
