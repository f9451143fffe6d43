"""Wrapper around one rank: writes its record, and ends it when its launcher is gone.

The program of every rank is read from ``program.json``, so that no launcher's shell can change a word of it.

The launcher (horovodrun, mpirun) holds the other end of this process's standard output, by a pipe or through sshd. When
that end closes, the launcher, the connection or the head has died, and a rank that computes or waits without writing
would never notice. So the wrapper watches for it and ends everything the rank started: processes that carry the rank's
mark, and the wrapper's own descendants, which include adopted orphans. A wrapper that is itself killed cannot do so:
the rank's own process ends with it, but processes that the rank started without the mark then stay on a worker; on
the head the supervisor adopts them.

On a worker horovodrun sends no signals: it only hangs up. A SIGTERM there comes from the node, which shuts down,
and the trainer has some time to agree on a checkpoint with the other ranks, for as long as the launcher is there. Open
MPI sends SIGTERM everywhere: if no rank has ended and the run is not being stopped, it is taken for the node's.
"""

import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from orchestrator import exit_codes, grace_periods, launch_layout
from orchestrator.trainer.supervision import leftover_processes, rank_environment, rank_record, user_variables
from orchestrator.trainer.supervision.output_relay import Relay
from orchestrator.trainer.supervision.rank_record import ENDED_BY_LAUNCHER, RankRecord
from orchestrator.trainer.supervision.signals import ENDING, Signals


def main(run_directory: Path) -> int:
    """Run the program of the rank that the environment names; return its exit code, 128 + n for signal n."""
    signals = Signals(*ENDING)
    variable = rank_environment.variable(os.environ)
    rank = int(os.environ[variable])
    layout = launch_layout.read(run_directory)
    mark = f"{os.environ[leftover_processes.RUN]}:{rank}"
    record = RankRecord(rank, socket.gethostname(), os.getpid(), started=time.time())
    path = run_directory / "ranks" / f"{rank}.json"
    record.write(path)
    relay = Relay(rank if layout.processes else None)  # launchers without node agents tag lines themselves
    program = json.loads((run_directory / "program.json").read_text())
    environment = rank_environment.complete(layout, os.environ) | user_variables.read(run_directory)
    environment[leftover_processes.RANK] = mark
    code, terminated = _run(program, environment, relay, signals, partial(_end_grace, run_directory, layout.trainer))
    ended = record._replace(ended=time.time(), exit_code=code, terminated=terminated)
    # NFS waits for a head that is gone, without a limit: the rank's processes must end all the same.
    writing = threading.Thread(target=_write, args=(ended, path), daemon=True)
    writing.start()
    grace = grace_periods.MPI_RANK if variable == rank_environment.OPEN_MPI else grace_periods.RANK
    leftover_processes.end_marked(f"{leftover_processes.RANK}={mark}", grace, with_descendants=True)
    relay.drain()
    writing.join(grace_periods.RECORD)
    return code


def _write(record: RankRecord, path: Path) -> None:
    with suppress(OSError):  # no space left on the shared storage
        record.write(path)


def _run(
    program: list[str], environment: dict[str, str], relay: Relay, signals: Signals, end_grace: Callable[[], float]
) -> tuple[int, bool]:
    """Return the exit code of ``program``, and whether the launcher asked it to end."""
    leftover_processes.adopt_orphans()
    out, err = relay.inputs
    try:
        child = subprocess.Popen(
            program,
            env=environment,
            stdout=out,
            stderr=err,
            preexec_fn=_begin,  # noqa: PLW1509  there are no threads yet
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such command" if missing else error.strerror
        print(f"{program[0]}: {reason} on {socket.gethostname()}", file=sys.stderr)
        return (exit_codes.NOT_FOUND if missing else exit_codes.NOT_EXECUTABLE), False
    relay.start()
    return _wait(child, signals, end_grace)


def _begin() -> None:
    os.setpgrp()  # a signal to the rank's group spares the wrapper
    leftover_processes.end_with_parent(signal.SIGKILL)  # MPI kills a wrapper that waits for a head that is gone


def _end_grace(run_directory: Path, trainer: bool) -> float:
    """Return the seconds that a rank gets to end after SIGTERM: some for a trainer whose node shuts down, else 0.

    That a rank was started through ssh shows in a variable (ssh(1), ENVIRONMENT).
    """
    if rank_environment.variable(os.environ) == rank_environment.OPEN_MPI:
        ended = any(record.exit_code is not None for record in rank_record.read_all(run_directory))
        of_node = not ended and not (run_directory / leftover_processes.STOP).exists()
    else:
        of_node = bool(os.environ.get("SSH_CONNECTION"))
    return grace_periods.NODE_SHUTDOWN if trainer and of_node else 0.0


def _wait(child: "subprocess.Popen[bytes]", signals: Signals, end_grace: Callable[[], float]) -> tuple[int, bool]:
    """Return the exit code, and whether the rank was asked to end, for which SIGTERM allows ``end_grace()`` seconds."""
    poll = select.poll()
    poll.register(signals.descriptor, select.POLLIN)
    poll.register(sys.stdout.fileno(), 0)  # no events requested: only errors and hang-up are reported
    deadline = math.inf
    while True:
        milliseconds = None if deadline == math.inf else max(0.0, 1000 * (deadline - time.monotonic()))
        gone = sys.stdout.fileno() in [descriptor for descriptor, _ in poll.poll(milliseconds)]
        received = signals.received()  # before reap: otherwise the signal of the child's end could be lost
        code = leftover_processes.reap(child)
        received |= signals.received() if code is not None else set()
        if received & ENDING and deadline == math.inf:
            grace = end_grace() if received & ENDING == {signal.SIGTERM} else 0.0
            deadline = time.monotonic() + grace
            if grace:
                with suppress(PermissionError):  # root's, if the program is sudo
                    child.terminate()
        if gone:
            poll.unregister(sys.stdout.fileno())
            deadline = min(deadline, time.monotonic() + grace_periods.HANG_UP)
        if code is not None or time.monotonic() >= deadline:
            return (ENDED_BY_LAUNCHER if code is None else code), deadline < math.inf


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
