"""How a run ended: the first thing that went wrong, looked up among the ranks' records and the log."""

import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from orchestrator.schema import Failure, RankRecord, RunStatus, State

LAST_LINES = 30
TERMINATED = 75  # of a rank of our trainer that was asked to end, and did so with a checkpoint: trainer.endings
# What ranks say that fail because another one did; the cause is to be looked for elsewhere.
FOLLOWERS = (
    "HorovodInternalError",
    "Horovod has been shut down",
    "Connection closed by peer",
    "Connection reset by peer",
)
MPI_TAG = re.compile(r"\[1,\d+\]<(?:stdout|stderr)>:")
TAG = re.compile(r"^\[(?:\d+,)?(\d+)\]<(stdout|stderr)>:(.*)$")


def write(run_directory: Path, started: float, exit_code: int, stopped: bool, left: list[str]) -> int:
    """Write status.json, ``left`` holds the hosts that did not answer; returns the run's exit code.

    A run whose ranks ended as they were asked to has been stopped, whoever asked: the launcher's own exit code says
    only that they did not succeed.
    """
    records = [RankRecord.model_validate_json(path.read_text()) for path in (run_directory / "ranks").glob("*.json")]
    if (run_directory / "config.json").exists() and any(record.exit_code == TERMINATED for record in records):
        exit_code, stopped = TERMINATED, True
    state: State = "stopped" if stopped else "failed" if exit_code else "finished"
    log = (run_directory / "log").read_text(errors="replace").splitlines() if state == "failed" else []
    failure = first_failure(records, log, left) if state == "failed" else None
    status = RunStatus(state=state, exit_code=exit_code, started=started, ended=time.time(), failure=failure, left=left)
    status.write(run_directory / "status.json")
    return exit_code


def first_failure(records: Sequence[RankRecord], log: Sequence[str], left: Sequence[str]) -> Failure:
    """The cause among what failed: a host that is gone, else the earliest rank that did not merely follow another."""
    if left:
        return Failure(reason="host", host=left[0])
    failed = sorted((r for r in records if r.exit_code and not r.terminated), key=lambda r: r.ended or 0.0)
    tails = {record.rank: lines_of(log, record.rank) for record in failed}
    causes = [record for record in failed if not any(word in line for word in FOLLOWERS for line in tails[record.rank])]
    for record in [*causes, *failed][:1]:
        return Failure(
            reason="rank", host=record.host, rank=record.rank, exit_code=record.exit_code, lines=tails[record.rank]
        )
    return Failure(reason="launcher", host=socket.gethostname(), lines=list(log[-LAST_LINES:]))


def lines_of(log: Sequence[str], rank: int) -> list[str]:
    """The last lines that ``rank`` wrote, from a log whose lines horovodrun tags ``[rank]<stream>:``."""
    tagged = (TAG.match(line) for line in log)
    return [MPI_TAG.sub("", match[3]) for match in tagged if match and int(match[1]) == rank][-LAST_LINES:]
