"""The shim around one rank: keeps its record, and ends it when whoever launched it is gone.

The program of every rank stands in ``program.json``, where no launcher's shell can change a word of it.

The launcher (horovodrun, mpirun) holds the other end of this process's standard output, by a pipe or through sshd.
When that end closes, the launcher, the connection or the head has died, and a rank that computes or waits without
writing would never notice: so the shim watches for it and ends everything the rank started. That is what carries the
rank's mark, and what descends from the shim, to which orphans fall. A shim that is itself killed cannot do so: what
the rank started without the mark then stays on a worker, and on the head falls to the supervisor.

On a worker horovodrun sends no signals: it only hangs up. SIGTERM there is the node's, which is about to go, and our
own trainer has some time to agree on a checkpoint with the other ranks, for as long as the launcher is there. Open MPI
sends SIGTERM everywhere: where no rank has ended and nobody has stopped the run, it is taken for the node's.
"""

import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchestrator.trainer.supervision import processes, record
from orchestrator.trainer.supervision.record import ENDED_BY_LAUNCHER, RankRecord
from orchestrator.trainer.supervision.relay import Relay
from orchestrator.trainer.supervision.signals import Signals

ENDING = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as shells have it
# Seconds for what a rank leaves to end by itself: fewer than a launcher has patience with the shim once it has asked.
GRACE = {"HOROVOD_RANK": 3.0, "OMPI_COMM_WORLD_RANK": 0.5}
PARTING = 1.0  # for a rank that ends by itself as the launcher hangs up: what it exits with may be why
NODE_GRACE = 25.0  # seconds for a trainer whose node goes: clouds give 30 and more


def main(run_directory: Path) -> int:
    """Run the program of the rank that the environment names; returns its exit code, 128 + n for signal n."""
    signals = Signals(*ENDING)
    variable = _variable()
    rank = int(os.environ[variable])
    mark = f"{os.environ[processes.RUN]}:{rank}"
    life = RankRecord(rank, socket.gethostname(), os.getpid(), started=time.time())
    path = run_directory / "ranks" / f"{rank}.json"
    life.write(path)
    relay = Relay()
    program = json.loads((run_directory / "program.json").read_text())
    code, terminated = _run(program, mark, relay, signals, partial(_patience, run_directory))
    life._replace(ended=time.time(), exit_code=code, terminated=terminated).write(path)
    processes.end(f"{processes.RANK}={mark}", GRACE[variable], own=True)
    relay.drain()
    return code


def _run(
    program: list[str], mark: str, relay: Relay, signals: Signals, patience: Callable[[], float]
) -> tuple[int, bool]:
    """Exit code of ``program``, and whether the launcher asked for its end."""
    processes.adopt_orphans()
    out, err = relay.inputs
    try:
        child = subprocess.Popen(program, env={**os.environ, processes.RANK: mark}, stdout=out, stderr=err)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such command" if missing else error.strerror
        print(f"{program[0]}: {reason} on {socket.gethostname()}", file=sys.stderr)
        return (NOT_FOUND if missing else NOT_EXECUTABLE), False
    relay.start()
    return _wait(child, signals, patience)


def _patience(run_directory: Path) -> float:
    """Seconds for the rank to end by itself after a SIGTERM that came now: some for our trainer, if it is the node's.

    It has a configuration, and ssh leaves a variable (ssh(1), ENVIRONMENT).
    """
    behind_ssh, by_mpi = bool(os.environ.get("SSH_CONNECTION")), _variable() != "HOROVOD_RANK"
    of_node = not _ending(run_directory) if by_mpi else behind_ssh
    return NODE_GRACE if (run_directory / "config.json").exists() and of_node else 0.0


def _ending(run_directory: Path) -> bool:
    """Whether the run is being stopped, or a rank of it has ended."""
    ended = any(found.exit_code is not None for found in record.read_all(run_directory))
    return (run_directory / processes.STOP).exists() or ended


def _wait(child: "subprocess.Popen[bytes]", signals: Signals, patience: Callable[[], float]) -> tuple[int, bool]:
    """Exit code and whether the rank was asked to end; it has ``patience()`` seconds to do so after SIGTERM."""
    poll = select.poll()
    poll.register(signals.descriptor, select.POLLIN)
    poll.register(sys.stdout.fileno(), 0)  # no events asked for: only error and hang-up are reported
    deadline = math.inf
    while True:
        left = deadline - time.monotonic()
        gone = sys.stdout.fileno() in [descriptor for descriptor, _ in poll.poll(_milliseconds(left))]
        asked = signals.received()  # before the child is looked at: the news of its end is not to be read away
        code = processes.reap(child)
        asked |= signals.received() if code is not None else set()
        if asked & ENDING and deadline == math.inf:
            grace = patience() if asked & ENDING == {signal.SIGTERM} else 0.0
            deadline = time.monotonic() + grace
            if grace:
                child.terminate()
        if gone:
            poll.unregister(sys.stdout.fileno())
            deadline = min(deadline, time.monotonic() + PARTING)
        if code is not None or time.monotonic() >= deadline:
            return (ENDED_BY_LAUNCHER if code is None else code), deadline < math.inf


def _milliseconds(seconds: float) -> "float | None":
    """As poll takes them: None to wait for as long as it takes."""
    return None if seconds == math.inf else max(0.0, seconds * 1000)


def _variable() -> str:
    """The variable in which the launcher, Gloo's or Open MPI's, names the rank."""
    return next(name for name in GRACE if os.environ.get(name))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
