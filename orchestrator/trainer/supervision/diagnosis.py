"""Diagnosis of a run's end: the first failure, found in the ranks' records and the log."""

import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from orchestrator.schema import KILLED, LOG_TAG, TERMINATED, Failure, RunStatus, State, log_lines
from orchestrator.trainer.supervision.node_launcher import LOST_AGENT
from orchestrator.trainer.supervision.rank_record import ENDED_BY_LAUNCHER, RankRecord, read_all

LAST_LINES = 30
# Of Ray Train: the rank of the worker that failed, and the hosts of all workers.
RAY_FAILED = re.compile(r"\[Rank (\d+) Error Snippet\]")
RAY_WORKER = re.compile(r"\(ip=([\d.]+), pid=\d+\) world_rank=(\d+)\b")
# Messages of ranks that fail because another rank did; the cause is in that rank.
FOLLOWERS = (
    "HorovodInternalError",
    "Horovod has been shut down",
    "Connection closed by peer",
    "Connection reset by peer",
)
RAISED = "Traceback (most recent call last):"


class LauncherEnd(NamedTuple):
    """End of the launcher.

    Attributes:
        exit_code: Its exit code.
        stopped: Whether the run was stopped.
        late: Ranks that had not started by the time limit, as text; empty if all had.
        unswept: Hosts that could not be swept.
        gone: Hosts among ``unswept`` that refuse a connection.
    """

    exit_code: int
    stopped: bool
    late: str
    unswept: list[str]
    gone: list[str]


def write(run_directory: Path, started: float, ended: LauncherEnd) -> int:
    """Write status.json and return the run's exit code.

    A run whose ranks ended on request counts as stopped, by the user or by a node: the launcher's own exit code only
    says that they did not succeed.

    Args:
        run_directory: Directory of the run.
        started: Start of the run, seconds since the epoch.
        ended: How the launcher ended.

    Returns:
        The run's exit code.
    """
    records = read_all(run_directory)
    exit_code, stopped = ended.exit_code, ended.stopped
    if (run_directory / "config.json").exists() and any(record.exit_code == TERMINATED for record in records):
        exit_code, stopped = TERMINATED, True
    state: State = "stopped" if stopped else "failed" if exit_code or ended.late else "finished"
    failure = _failure(run_directory, records, ended) if state == "failed" else None
    times = {"started": started, "ended": time.time()}
    status = RunStatus(state=state, exit_code=exit_code, failure=failure, left=ended.unswept, **times)
    status.write(run_directory / "status.json")
    return exit_code


def _failure(run_directory: Path, records: Sequence[RankRecord], ended: LauncherEnd) -> Failure:
    if ended.late and not ended.gone:
        return Failure(reason="start", host=socket.gethostname(), lines=[ended.late])
    log = log_lines.whole((run_directory / "log").read_text(errors="replace").splitlines())
    return of_ray(first_failure(records, log, ended.gone), log)


def first_failure(records: Sequence[RankRecord], log: Sequence[str], gone: Sequence[str]) -> Failure:
    """Find the cause of a failure: a host that is gone, else the earliest rank that did not merely follow another.

    A rank that raised may take longer to exit than those that followed it, so that the launcher ends it.

    Args:
        records: Records of all ranks that started.
        log: Lines of the run's log.
        gone: Hosts that refuse a connection.

    Returns:
        The failure, with the last lines of the rank or of the log.
    """
    if gone:
        return Failure(reason="host", host=gone[0])
    ended = sorted((record for record in records if record.exit_code), key=lambda record: record.ended or 0.0)
    tails = {record.rank: lines_of(log, record.rank) for record in ended}
    independent = [
        record for record in ended if not any(word in line for word in FOLLOWERS for line in tails[record.rank])
    ]
    causes = [record for record in independent if not record.terminated]
    causes += [record for record in independent if record.terminated and RAISED in tails[record.rank]]
    for record in [*causes, *(record for record in ended if not record.terminated)][:1]:
        code = None if record.terminated and record.exit_code == ENDED_BY_LAUNCHER else record.exit_code
        return Failure(reason="rank", host=record.host, rank=record.rank, exit_code=code, lines=tails[record.rank])
    for record in (record for record in records if record.exit_code is None):  # its wrapper was killed
        return Failure(
            reason="rank", host=record.host, rank=record.rank, exit_code=KILLED, lines=lines_of(log, record.rank)
        )
    lost = LOST_AGENT.search("\n".join(log[-LAST_LINES:]))
    host = lost[1] if lost else socket.gethostname()
    return Failure(reason="launcher", host=host, lines=list(log[-LAST_LINES:]))


def of_ray(failure: Failure, log: Sequence[str]) -> Failure:
    """Name the worker of Ray Train whose failure ended the script, if the last lines of the script contain its rank."""
    failed = RAY_FAILED.search("\n".join(failure.lines))
    hosts = {worker[2]: worker[1] for worker in map(RAY_WORKER.search, log) if worker}
    if not failed or failed[1] not in hosts:
        return failure
    return failure.model_copy(update={"host": hosts[failed[1]], "rank": int(failed[1]), "exit_code": None})


def lines_of(log: Sequence[str], rank: int) -> list[str]:
    """Return the last lines that ``rank`` wrote, from a log whose lines the launcher tags: ``[rank]<stream>:``."""
    tags = ((LOG_TAG.match(line), line) for line in log)
    return [line[tag.end() :] for tag, line in tags if tag and int(tag[1]) == rank][-LAST_LINES:]
