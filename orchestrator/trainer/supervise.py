"""The main process of a run's unit on the head: runs the launcher, leaves nothing behind, writes status.json.

It is stopped by SIGTERM (``systemctl stop``). Whatever way the launcher ends, every host of the hostfile is swept
for processes of the run, and the first thing that went wrong is looked up among the ranks' records.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from orchestrator.schema import Failure, RankRecord, RunStatus, State
from orchestrator.trainer import processes

LAST_LINES = 30
LAUNCHER_GRACE = 20.0
SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
# What ranks say that fail because another one did; the cause is to be looked for elsewhere.
FOLLOWERS = (
    "HorovodInternalError",
    "Horovod has been shut down",
    "Connection closed by peer",
    "Connection reset by peer",
)
MPI_TAG = re.compile(r"\[1,\d+\]<(?:stdout|stderr)>:")
TAG = re.compile(r"^\[(?:\d+,)?(\d+)\]<(stdout|stderr)>:(.*)$")


def main(run_directory: Path, command: list[str]) -> int:
    """Run the launcher to its end; returns its exit code, which is also the unit's."""
    started = time.time()
    code, stopped = _launch(command)
    left = sweep((run_directory / "hostfile").read_text(), os.environ[processes.RUN])
    state: State = "stopped" if stopped else "failed" if code else "finished"
    failure = _failure(run_directory, left) if state == "failed" else None
    status = RunStatus(state=state, exit_code=code, started=started, ended=time.time(), failure=failure, left=left)
    status.write(run_directory / "status.json")
    return code


def _launch(command: list[str]) -> tuple[int, bool]:
    launcher = subprocess.Popen(command, start_new_session=True)
    stopped = []

    def stop(number: int, frame: object) -> None:
        stopped.append(number)
        _signal_group(launcher.pid, signal.SIGTERM)  # horovodrun, and the shell and mpirun that it becomes

    signal.signal(signal.SIGTERM, stop)
    code = launcher.wait()
    deadline = time.monotonic() + LAUNCHER_GRACE
    while _signal_group(launcher.pid, 0) and time.monotonic() < deadline:  # mpirun takes its daemons down
        time.sleep(0.05)
    _signal_group(launcher.pid, signal.SIGKILL)
    return (128 - code if code < 0 else code), bool(stopped)


def _signal_group(leader: int, number: int) -> bool:
    """Whether the process group of ``leader`` still has a member to signal."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    return True


def sweep(hostfile: str, run: str) -> list[str]:
    """End the processes of ``run`` on every host of ``hostfile``, whose first line is this one.

    Returns the hosts that did not answer.
    """
    others = [line.split()[0] for line in hostfile.splitlines()][1:]
    with ThreadPoolExecutor(max_workers=32) as pool:
        answered = list(pool.map(lambda host: _sweep_host(host, run), others))
    processes.end(f"{processes.RUN}={run}")
    return [host for host, ok in zip(others, answered, strict=False) if not ok]


def _sweep_host(host: str, run: str) -> bool:
    command = [*SSH, host, sys.executable, "-m", "orchestrator.trainer.processes", run]
    unmarked = {name: value for name, value in os.environ.items() if name != processes.RUN}  # not to be swept itself
    return (
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=unmarked).returncode
        == 0
    )


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


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[sys.argv.index("--") + 1 :]))
