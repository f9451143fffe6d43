"""Diagnosis of a run's end: the first failure, found in the ranks' records and the log."""

import os
import re
import shutil
import socket
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator import exit_codes
from orchestrator.schema import LOG_TAG, Failure, RunStatus, State, log_lines
from orchestrator.trainer.supervision.node_launcher import LOST_AGENT
from orchestrator.trainer.supervision.rank_record import ENDED_BY_LAUNCHER, RankRecord, read_all

LAST_LINES = 30
BEGIN_BYTES, END_BYTES = 1 << 20, 8 << 20  # of a log that are read
RESERVE, RESERVE_BYTES = ".reserve", 1 << 18  # file in the run's directory, removed before the status is written
NO_SPACE = "no space left on /shared"
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

Tails = defaultdict[int, deque[str]]


class LauncherEnd(NamedTuple):
    """End of the launcher.

    Attributes:
        exit_code: Its exit code.
        stopped: Whether the run was stopped.
        late: Ranks that had not started by the time limit, as text; empty if all had.
        unswept: Hosts that could not be swept.
        gone: Hosts among ``unswept`` that refuse a connection.
        trainer: Whether the ranks ran the trainer.
    """

    exit_code: int
    stopped: bool
    late: str
    unswept: list[str]
    gone: list[str]
    trainer: bool = False


def write(run_directory: Path, started: float, ended: LauncherEnd) -> int:
    """Write status.json and return the run's exit code.

    A run whose ranks ended on request counts as stopped, by the user or by a node: the launcher's own exit code only
    says that they did not succeed. A trainer that was complete when it was asked to end has finished.

    Args:
        run_directory: Directory of the run.
        started: Start of the run, seconds since the epoch.
        ended: How the launcher ended.

    Returns:
        The run's exit code.
    """
    records = read_all(run_directory)
    exit_code, stopped = ended.exit_code, ended.stopped
    if ended.trainer:
        on_request = any(record.exit_code == exit_codes.RUN_STOPPED for record in records)
        exit_code = exit_codes.RUN_STOPPED if on_request else exit_code
        stopped = on_request or (stopped and exit_code != 0)
    state: State = "stopped" if stopped else "failed" if exit_code or ended.late else "finished"
    failure = _failure(run_directory, records, ended) if state == "failed" else None
    times = {"started": started, "ended": time.time()}
    status = RunStatus(state=state, exit_code=exit_code, failure=failure, left=ended.unswept, **times)
    (run_directory / RESERVE).unlink(missing_ok=True)
    status.write(run_directory / "status.json")
    return exit_code


def reserve_space(run_directory: Path) -> None:
    """Take the space of a status, which is then there at the end of a run that fills the shared storage."""
    with suppress(OSError):
        (run_directory / RESERVE).write_bytes(bytes(RESERVE_BYTES))


def _failure(run_directory: Path, records: Sequence[RankRecord], ended: LauncherEnd) -> Failure:
    if ended.late and not ended.gone:
        failure = Failure(reason="start", host=socket.gethostname(), lines=[ended.late])
    else:
        log = log_lines.whole(read_ends(run_directory / "log"))
        failure = of_ray(first_failure(records, log, ended.gone), log)
    if shutil.disk_usage(run_directory).free >= RESERVE_BYTES:  # but for the reserve
        return failure
    # Nothing that failed could write this to the log. Nor could a wrapper complete its record: whether it was killed is
    # not known.
    code = None if failure.exit_code == exit_codes.KILLED else failure.exit_code
    return failure.model_copy(update={"exit_code": code, "lines": [*failure.lines[-LAST_LINES + 1 :], NO_SPACE]})


def read_ends(path: Path) -> list[str]:
    """Read the lines at the begin of a log, where Ray names its workers, and at its end; a log may have gigabytes."""
    with path.open("rb") as log:
        text = log.read(BEGIN_BYTES)
        left_out = log.seek(0, os.SEEK_END) - END_BYTES - len(text)
        log.seek(len(text) + max(0, left_out))
        end = log.read(END_BYTES)
    if left_out > 0:
        end = b"\n" + end[end.find(b"\n") + 1 :]
    # Of text, splitlines would also split at form feeds and U+2028.
    return [line.decode(errors="replace") for line in (text + end).splitlines()]


def first_failure(records: Sequence[RankRecord], log: Sequence[str], gone: Sequence[str]) -> Failure:
    """Find the cause of a failure: hosts that are gone, else the earliest rank that did not merely follow another.

    Args:
        records: Records of all ranks that started.
        log: Lines of the run's log.
        gone: Hosts that refuse a connection.

    Returns:
        The failure, with the last lines of the rank or of the log.
    """
    if gone:
        return Failure(reason="host", host=gone[0], hosts=list(gone))
    tails = last_lines(log)
    record = _first_failed(records, tails)
    if record is None:
        lines = list(log[-LAST_LINES:])
        lost = LOST_AGENT.search("\n".join(lines))
        return Failure(reason="launcher", host=lost[1] if lost else socket.gethostname(), lines=lines)
    code = exit_codes.KILLED if record.exit_code is None else record.exit_code
    raised = record.terminated and code == ENDED_BY_LAUNCHER
    lines = list(tails[record.rank])
    return Failure(reason="rank", host=record.host, rank=record.rank, exit_code=None if raised else code, lines=lines)


def _first_failed(records: Sequence[RankRecord], tails: Tails) -> RankRecord | None:
    """Return the rank whose failure is the cause, None if no rank's is.

    A rank that raised may take longer to exit than those that followed it, so that the launcher ends it. A rank whose
    wrapper was killed, as by a restart of its node, has no exit code.
    """
    ended = sorted((record for record in records if record.exit_code), key=lambda record: record.ended or 0.0)
    independent = [record for record in ended if not _followed(tails[record.rank])]
    by_likelihood = [
        *(record for record in independent if not record.terminated),
        *(record for record in independent if record.terminated and RAISED in tails[record.rank]),
        *sorted(record for record in records if record.exit_code is None),
        *(record for record in ended if not record.terminated),
    ]
    return next(iter(by_likelihood), None)


def _followed(lines: Iterable[str]) -> bool:
    """Tell whether a rank with these last lines failed because another one did."""
    return any(word in line for line in lines for word in FOLLOWERS)


def of_ray(failure: Failure, log: Sequence[str]) -> Failure:
    """Name the worker of Ray Train whose failure ended the script, if the last lines of the script contain its rank."""
    failed = RAY_FAILED.search("\n".join(failure.lines))
    hosts = {worker[2]: worker[1] for worker in map(RAY_WORKER.search, log) if worker}
    if not failed or failed[1] not in hosts:
        return failure
    return failure.model_copy(update={"host": hosts[failed[1]], "rank": int(failed[1]), "exit_code": None})


def last_lines(log: Iterable[str]) -> Tails:
    """Return the last lines that each rank wrote, from a log whose lines the launcher tags: ``[rank]<stream>:``."""
    tails: Tails = defaultdict(lambda: deque(maxlen=LAST_LINES))
    for line in log:
        if tag := LOG_TAG.match(line):
            tails[int(tag[1])].append(line[tag.end() :])
    return tails
