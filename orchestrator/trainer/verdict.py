"""How a run ended: the first thing that went wrong, looked up among the ranks' records and the log."""

import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from orchestrator.schema import Failure, RankRecord, RunStatus, State

LAST_LINES = 30
# What ranks say that fail because another one did; the cause is to be looked for elsewhere.
FOLLOWERS = (
    "HorovodInternalError",
    "Horovod has been shut down",
    "Connection closed by peer",
    "Connection reset by peer",
)
MPI_TAG = re.compile(r"\[1,\d+\]<(?:stdout|stderr)>:")
TAG = re.compile(r"^\[(?:\d+,)?(\d+)\]<(stdout|stderr)>:(.*)$")


def write(run_directory: Path, started: float, exit_code: int, stopped: bool, left: list[str]) -> None:
    """Write status.json; ``left`` holds the hosts that did not answer."""
    state: State = "stopped" if stopped else "failed" if exit_code else "finished"
    failure = _failure(run_directory, left) if state == "failed" else None
    status = RunStatus(state=state, exit_code=exit_code, started=started, ended=time.time(), failure=failure, left=left)
    status.write(run_directory / "status.json")


def _failure(run_directory: Path, left: list[str]) -> Failure:
    records = [RankRecord.model_validate_json(path.read_text()) for path in (run_directory / "ranks").glob("*.json")]
    return first_failure(records, (run_directory / "log").read_text(errors="replace").splitlines(), left)


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
