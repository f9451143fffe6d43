"""Main process of a run's unit on the head: runs the launcher, ends all processes of the run, writes status.json.

The launcher's arguments are read from ``command.json``, so that no shell and no unit file can change a word of them.
The process is stopped by SIGTERM (``systemctl stop``). The trainer is then first asked by a file to end with a
checkpoint, because a launcher does not forward signals to its ranks: its ssh clients just die. However the launcher
ends, all processes of the run are ended on every host of the hostfile. Every wait has a limit (``grace_periods``), and
together they stay below the unit's TimeoutStopSec.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from orchestrator import exit_codes, grace_periods, launch_layout
from orchestrator.launch_layout import FIRST_PORT
from orchestrator.trainer.supervision import (
    installed_packages,
    leftover_processes,
    rank_environment,
    start_progress,
    user_variables,
)
from orchestrator.trainer.supervision.own_addresses_and_ports import free_ports, is_local, towards
from orchestrator.trainer.supervision.signals import Signals

SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]


def main(run_directory: Path) -> int:
    """Run the launcher to its end; return the run's exit code, which is also the unit's."""
    signals = Signals(signal.SIGTERM)
    started = time.time()
    leftover_processes.adopt_orphans()
    command = json.loads((run_directory / "command.json").read_text())
    layout, hostfile = launch_layout.read(run_directory), (run_directory / "hostfile").read_text()
    # For every rank: launchers pass them on.
    os.environ[FIRST_PORT] = str(free_ports(1 + len(layout.ranks)))
    os.environ[rank_environment.RENDEZVOUS_HOST] = towards(layout.ranks[0])
    start = start_progress.Start(run_directory, layout)
    try:
        code, stopped = _launch(run_directory, command, signals, start, layout.trainer)
    finally:  # storage that fails is no reason to leave processes on the hosts
        with suppress(OSError):  # the unit removes them, too
            user_variables.remove(run_directory)
        unswept, gone = sweep(hostfile, os.environ[leftover_processes.RUN])
    from orchestrator.trainer.supervision import first_failure  # noqa: PLC0415  see _prepare_end

    ended = first_failure.LauncherEnd(code, stopped, start.late, unswept, gone, layout.trainer)
    return first_failure.write(run_directory, started, ended)


@cache
def _prepare_end(run_directory: Path) -> None:
    """Do what the end of a run needs and would delay its start: list packages, import pydantic, reserve space."""
    from orchestrator.trainer.supervision import first_failure  # noqa: PLC0415

    installed_packages.write(run_directory)
    first_failure.reserve_space(run_directory)


def _launch(
    run_directory: Path, command: list[str], signals: Signals, start: start_progress.Start, trainer: bool
) -> tuple[int, bool]:
    """Return the launcher's exit code, and whether the run was stopped."""
    try:
        launcher = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        log(f"{command[0]}: {error.strerror}")
        return exit_codes.NOT_FOUND, False
    code, patience, deadline = None, math.inf, math.inf
    while code is None:
        signals.wait(1.0)
        _prepare_end(run_directory)
        if signal.SIGTERM in signals.received() and patience == math.inf:
            patience = time.monotonic() + (grace_periods.TRAINER if trainer and _ask_trainer(run_directory) else 0.0)
        start.report_progress()
        if (time.monotonic() >= patience or start.late) and deadline == math.inf:
            deadline = time.monotonic() + grace_periods.LAUNCHER
            _signal_group(launcher.pid, signal.SIGTERM)  # horovodrun, and the shell and mpirun that it becomes
        if time.monotonic() >= deadline:
            _signal_group(launcher.pid, signal.SIGKILL)
        code = leftover_processes.reap(launcher)
    _end_group(launcher, min(deadline, time.monotonic() + grace_periods.LAUNCHER))
    return code, patience < math.inf


def _ask_trainer(run_directory: Path) -> bool:
    """Ask the trainer's ranks to end, if they can write a checkpoint; return whether they were asked."""
    if not (run_directory / "checkpoints").is_dir():
        return False
    try:
        (run_directory / leftover_processes.STOP).touch()
    except OSError:
        return False
    return True


def _end_group(launcher: "subprocess.Popen[bytes]", deadline: float) -> None:
    """Give the launcher's group until ``deadline``, since mpirun takes its daemons down; then kill it."""
    while _signal_group(launcher.pid, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
        leftover_processes.reap(launcher)
    _signal_group(launcher.pid, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> bool:
    """Signal the process group of ``leader``; return whether it still had a member that this account may signal."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):  # only root's are left, if a script uses sudo
        return False
    return True


def sweep(hostfile: str, run: str) -> tuple[list[str], list[str]]:
    """End the processes of ``run`` here and on every host of ``hostfile``.

    Returns:
        Hosts that were not swept in time, and those of them that are gone: they refuse a connection.
    """
    leftover_processes.end_marked(f"{leftover_processes.RUN}={run}", with_descendants=True)
    remote_hosts = [host for host in (line.split()[0] for line in hostfile.splitlines()) if not is_local(host)]
    seconds = grace_periods.SWEEP + grace_periods.SWEEP_EACH_HOST * len(remote_hosts)
    with ThreadPoolExecutor(max_workers=len(remote_hosts) or 1) as pool:
        swept = pool.map(lambda host: _sweep_host(host, run, seconds), remote_hosts)
        codes = dict(zip(remote_hosts, swept, strict=True))
    unswept = [host for host, code in codes.items() if code in (None, exit_codes.SSH_FAILED)]
    return unswept, [host for host in unswept if codes[host] == exit_codes.SSH_FAILED]


def _sweep_host(host: str, run: str, seconds: float) -> "int | None":
    """Sweep one host; return ssh's exit code, None if it took too long. Errors of a reachable host go to the log."""
    command = [sys.executable, "-m", "orchestrator.trainer.supervision.leftover_processes", run]
    try:
        swept = run_on(host, command, seconds)
    except subprocess.TimeoutExpired:
        return None
    if swept.returncode not in (0, exit_codes.SSH_FAILED):
        reason = swept.stderr.strip() or f"exit code {swept.returncode}"
        log(f"processes of the run may be left on {host}: {reason}")
    return swept.returncode


def run_on(host: str, command: list[str], seconds: float) -> "subprocess.CompletedProcess[str]":
    """Run a command on a host, at most ``seconds``; capture its output."""
    return subprocess.run(
        [*SSH, host, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=seconds
    )


def log(text: str) -> None:
    """Write a line to the run's log. A disk without room is no reason to end a run."""
    with suppress(OSError):
        print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
