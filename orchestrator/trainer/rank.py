"""The shim around one rank: keeps its record, and ends it when whoever launched it is gone.

The launcher (horovodrun, mpirun) holds the other end of this process's standard output, by a pipe or through sshd.
When that end closes, the launcher, the connection or the head has died, and a rank that computes or waits without
writing would never notice: so the shim watches for it and ends everything the rank started.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from orchestrator.schema import RankRecord
from orchestrator.trainer import processes

ENDED_BY_LAUNCHER = 143
NOT_FOUND = 127


class _Ended(Exception):
    """The launcher asked this rank to end."""


def main(run_directory: Path, command: list[str]) -> int:
    """Run ``command`` as the rank that the environment names; returns its exit code, 128 + n for signal n."""
    rank = _rank()
    mark = f"{os.environ[processes.RUN]}:{rank}"
    record = RankRecord(rank=rank, host=socket.gethostname(), pid=os.getpid(), started=time.time())
    path = run_directory / "ranks" / f"{rank}.json"
    record.write(path)
    code = _supervise(command, {**os.environ, processes.RANK: mark})
    ended = {"ended": time.time(), "exit_code": code, "terminated": code == ENDED_BY_LAUNCHER}
    record.model_copy(update=ended).write(path)
    processes.end(f"{processes.RANK}={mark}")
    return code


def _supervise(command: list[str], environment: dict[str, str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _end)
    try:
        return _wait(subprocess.Popen(command, env=environment))
    except FileNotFoundError as error:
        print(f"{error.filename}: no such command on {socket.gethostname()}", file=sys.stderr)
        return NOT_FOUND
    except _Ended:
        return ENDED_BY_LAUNCHER
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


def _wait(child: "subprocess.Popen[bytes]") -> int:
    ended = os.pidfd_open(child.pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(sys.stdout.fileno(), 0)  # no events asked for: only error and hang-up are reported
    if ended not in [descriptor for descriptor, _ in poll.poll()]:
        return ENDED_BY_LAUNCHER
    code = child.wait()
    return 128 - code if code < 0 else code


def _end(number: int, frame: object) -> None:
    raise _Ended


def _rank() -> int:
    """The rank as the Gloo launcher (HOROVOD_RANK) or Open MPI (OMPI_COMM_WORLD_RANK) names it."""
    return int(os.environ.get("HOROVOD_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[sys.argv.index("--") + 1 :]))
