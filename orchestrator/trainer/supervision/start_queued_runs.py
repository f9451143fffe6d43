"""Main process of a queue's unit on the head: starts the supervisors of runs one after another.

Each run has the directory, environment and supervisor that it has if the control side starts it. A stop of the queue
(SIGTERM) is passed on to the supervisor of the run under way. After a run that failed, the next one starts, unless a
host is gone: every later run would fail, too.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from orchestrator import cpu_usage, exit_codes, launch_layout
from orchestrator.schema import Queue, QueuedRun, RunStatus, State, Turn, bounded_files
from orchestrator.trainer.supervision import first_failure, leftover_processes
from orchestrator.trainer.supervision.own_addresses_and_ports import is_local
from orchestrator.trainer.supervision.signals import Signals
from orchestrator.trainer.supervision.supervise import log, run_on, sweep

SETTLE_SECONDS = 1.0  # after a run, before the load is measured
BUSY_SECONDS = 30.0  # for a host to answer with its load
EXIT_CODES: dict[State, int] = {"finished": 0, "failed": exit_codes.FAILED, "stopped": exit_codes.RUN_STOPPED}


def main(directory: Path) -> int:
    """Run the queue to its end; return its exit code, which is also the unit's."""
    signals, started = Signals(signal.SIGTERM), time.time()
    leftover_processes.adopt_orphans()
    state = _run_all(bounded_files.read_model(directory / "queue.json", Queue).runs, signals)
    code = EXIT_CODES[state]
    RunStatus(state=state, exit_code=code, started=started, ended=time.time()).write(directory / "status.json")
    return code


def _run_all(runs: Sequence[QueuedRun], signals: Signals) -> State:
    for number, run in enumerate(runs, 1):
        name = Path(run.directory).name
        time.sleep(SETTLE_SECONDS)
        turn = Turn(started=time.time(), busy=_busy(run.hosts))
        if signal.SIGTERM in signals.received():
            return "stopped"
        try:
            stopped, status = _run(run, turn, signals)
        except Exception as error:  # its files may hold anything; it stays without a status, as if never started
            log(f"{number} of {len(runs)}: {name}: {error}")
            continue
        log(f"{number} of {len(runs)}: {name}: {status.state if status else 'left no status'}")
        if stopped:
            return "stopped"
        if status and status.failure and status.failure.reason == "host":
            return "failed"
    return "finished"


def _run(run: QueuedRun, turn: Turn, signals: Signals) -> tuple[bool, RunStatus | None]:
    """Run the supervisor of a run to its end; return whether it was stopped, and the status of the run.

    It has none if its directory is gone, the storage has no space, or a file of the run is damaged.
    """
    directory = Path(run.directory)
    turn.write(directory / "turn.json")
    supervisor, stopped = _start(run, directory), False
    while (code := leftover_processes.reap(supervisor)) is None:
        signals.wait(60.0)
        if signal.SIGTERM in signals.received():
            stopped = True
            supervisor.terminate()
    try:
        if not (directory / "status.json").exists():  # the supervisor was killed
            unswept, gone = sweep((directory / "hostfile").read_text(), directory.name)
            trainer = launch_layout.read(directory).trainer
            ended = first_failure.LauncherEnd(code, stopped, "", unswept, gone, trainer)
            first_failure.write(directory, turn.started, ended)
        status = bounded_files.read_model(directory / "status.json", RunStatus)
    except Exception as error:  # as above
        log(f"{directory.name}: {error}")
        status = None
    shutil.rmtree(directory / "checkpoints", ignore_errors=True)  # those of many runs would fill the storage
    return stopped, status


def _start(run: QueuedRun, directory: Path) -> "subprocess.Popen[bytes]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATOR_")}
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator.trainer.supervision.supervise", run.directory],
            cwd=run.workdir,
            env={**inherited, **run.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _busy(hosts: Sequence[str]) -> float:
    """Return the share of CPU that programs use on the busiest of ``hosts``, on this one if there are none."""
    if not hosts:
        return cpu_usage.measure()
    with ThreadPoolExecutor(max_workers=len(hosts)) as pool:
        return max(pool.map(_busy_of, hosts))


def _busy_of(host: str) -> float:
    """Return the share of CPU that programs use on a host; 0 if it does not answer well: the run will say why."""
    if is_local(host):
        return cpu_usage.measure()
    try:
        answer = run_on(host, [cpu_usage.READINGS], BUSY_SECONDS)
        answer.check_returncode()
        return cpu_usage.of(answer.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return 0.0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
