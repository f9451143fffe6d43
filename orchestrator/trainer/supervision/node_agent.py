"""Agent of one host: starts the host's processes of a run and ends them when one fails or the launcher is gone.

The launcher (``node_launcher``) sends one line of JSON to the standard input, with the environment and the directory of
the processes, and keeps the input open: its end means that the launcher, the connection or the head is gone.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path

from orchestrator import exit_codes, grace_periods, launch_layout
from orchestrator.launch_layout import FIRST_PORT, Layout, Process
from orchestrator.trainer.supervision import leftover_processes, rank_environment, rank_record, user_variables
from orchestrator.trainer.supervision.signals import ENDING, Signals

AGENT = "ORCHESTRATOR_AGENT"  # variable that marks what an agent started, by the agent's host
LAST_LINES = 10


class Agent:
    """The processes of ``host`` in a run."""

    def __init__(self, run_directory: Path, host: str) -> None:
        self.directory, self.host = run_directory, host
        self.layout: Layout = launch_layout.read(run_directory)
        self.running: dict[subprocess.Popen[bytes], Process] = {}

    def start(self, environment: dict[str, str]) -> bool:
        """Start every process; return whether all could be started."""
        if self.layout.has_ray and not _is_created(launch_layout.scratch(os.environ[leftover_processes.RUN])):
            return False
        # A rank's wrapper sets these itself, Ray's daemon passes them on to its workers.
        inherited = {**rank_environment.interfaces(self.layout), **user_variables.read(self.directory)}
        for process in self.layout.processes.get(self.host, []):
            argv = [word.replace(launch_layout.PORT, environment[FIRST_PORT]) for word in process.argv]
            variables = inherited if process.rank is None else {"RANK": str(process.rank)}
            try:
                self.running[self._started(process, argv, {**environment, **variables})] = process
            except OSError as error:
                print(f"{argv[0]}: {error.strerror} on {socket.gethostname()}", file=sys.stderr, flush=True)
                return False
        return True

    def _started(self, process: Process, argv: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        # ssh does not report the end of a killed agent while its ranks hold the connection open.
        with (self.directory / process.log).open("wb") if process.log else nullcontext() as log:
            return subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=leftover_processes.end_with_parent,  # noqa: PLW1509  the agent has no threads
            )

    def wait(self, signals: Signals) -> int:
        """Wait until all processes have ended well, one has failed or the leader has ended, or until asked to end."""
        while self.running:
            ready = signals.wait(None, sys.stdin.fileno())
            if sys.stdin.fileno() in ready or signals.received() & ENDING:
                return exit_codes.TERMINATED
            for ended, process in [(p, self.running[p]) for p in self.running if p.poll() is not None]:
                code = self._ended(ended, process)
                if code or (process.rank == 0 and self.layout.has_leader):
                    return code
        return 0

    def _ended(self, ended: "subprocess.Popen[bytes]", process: Process) -> int:
        """Return the exit code of a process that has ended; one that failed is reported."""
        del self.running[ended]
        code = leftover_processes.exit_code(ended.returncode)
        if code:  # NFS waits for a head that is gone, without a limit: the other processes must end all the same
            report = threading.Thread(target=self._report, args=(process, code), daemon=True)
            report.start()
            report.join(grace_periods.RECORD)
        return code

    def _report(self, process: Process, code: int) -> None:
        """Print the last lines of a program with a log, and complete the record of a wrapper that was killed."""
        if process.log:
            lines = (self.directory / process.log).read_text(errors="replace").splitlines()[-LAST_LINES:]
            print("\n".join([*lines, f"{process.argv} ended with exit code {code}"]), file=sys.stderr, flush=True)
        path = self.directory / "ranks" / f"{process.rank}.json"
        if path.exists() and (record := rank_record.read(path)).exit_code is None:
            with suppress(OSError):  # no space left on the shared storage; the other processes must end all the same
                record._replace(ended=time.time(), exit_code=code).write(path)

    def end_running(self) -> None:
        """End the processes that still run; kill those that do not end in time."""
        for running in self.running:
            running.terminate()
        began = time.monotonic()
        for running, process in self.running.items():
            grace = grace_periods.WRAPPER if process.log is None else grace_periods.DAEMON
            try:
                running.wait(max(0.0, began + grace - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.kill()


def _is_created(directory: str) -> bool:
    """Create ``directory`` for this account alone; False, with a message, if another account was first."""
    shutil.rmtree(directory, ignore_errors=True)  # of this account, from a killed agent
    try:
        Path(directory).mkdir(0o700)
    except OSError as error:
        print(f"{directory}: {error.strerror} on {socket.gethostname()}", file=sys.stderr, flush=True)
        return False
    return True


def main(run_directory: Path, host: str) -> int:
    """Start the processes of ``host`` and wait for them; return the exit code of the first that failed."""
    signals = Signals(*ENDING)
    leftover_processes.adopt_orphans()
    agent = Agent(run_directory, host)
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as unbuffered:
        order = json.loads(unbuffered.readline() or b"null")
    if order is None:
        return exit_codes.TERMINATED
    os.chdir(order["directory"])
    os.environ.update(order["environment"], **{AGENT: host})
    code = agent.wait(signals) if agent.start(dict(os.environ)) else exit_codes.NOT_FOUND
    if code not in (0, exit_codes.TERMINATED):
        leftover_processes.wait_for_all(agent.running, grace_periods.OTHER_RANKS)
    agent.end_running()
    # Descendants without a mark, too: Ray's helpers overwrite their environment with a title.
    leftover_processes.end_marked(f"{AGENT}={host}", with_descendants=True)
    shutil.rmtree(launch_layout.scratch(os.environ[leftover_processes.RUN]), ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
