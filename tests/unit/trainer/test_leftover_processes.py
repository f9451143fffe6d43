"""Search for real processes of a run by the mark in their environment."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.trainer.supervision import leftover_processes
from tests import waiting
from tests.unit.conftest import Start

EXIT_OF_A_THREAD = {"x86_64": 60, "aarch64": 93}  # number of the system call exit, which ends one thread
SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
# A helper in its own session whose parent has ended, like a data loader's daemon.
LEAVE_A_DAEMON = f"""
import subprocess, sys
daemon = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True, stdout=subprocess.PIPE, text=True)
print(daemon.stdout.readline(), end="", flush=True)
"""
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
# Ends its own run, like the wrapper, and has a parent that belongs to the run too.
END_FROM_WITHIN = f"""
import subprocess, sys
from orchestrator.trainer.supervision import leftover_processes
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(leftover_processes.end_marked(sys.argv[1]), child.wait(), flush=True)
"""
AS_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {END_FROM_WITHIN!r}, sys.argv[1]])"


@pytest.fixture
def run(request: pytest.FixtureRequest) -> str:
    """Return a run id that no other test, and no cluster on this machine, has."""
    return f"test-{os.getpid()}-{request.node.name}"


def begin(start: Start, code: str, run: str, rank: int = 0) -> int:
    """Return the id of a process of a run's rank that is ready."""
    return int(waiting.read_line(start("-c", code, ORCHESTRATOR_RUN=run, ORCHESTRATOR_RANK=f"{run}:{rank}")))


def test_processes_are_found_by_run_and_by_rank(start: Start, run: str) -> None:
    first, second = (begin(start, SLEEP, run, rank) for rank in (0, 1))
    begin(start, SLEEP, f"{run}-of-another")
    assert leftover_processes.marked(f"ORCHESTRATOR_RUN={run}") == {first, second}
    assert leftover_processes.marked(f"ORCHESTRATOR_RANK={run}:1") == {second}


def test_run_is_active_while_it_has_a_process(start: Start, run: str) -> None:
    assert run not in leftover_processes.active_runs()
    begin(start, SLEEP, run)
    begin(start, SLEEP, run, rank=1)
    assert leftover_processes.active_runs().count(run) == 1


def test_ending_a_run_ends_its_processes_and_no_others(start: Start, run: str) -> None:
    own, other = begin(start, SLEEP, run), begin(start, SLEEP, f"{run}-of-another")
    assert leftover_processes.end_marked(f"ORCHESTRATOR_RUN={run}") == 1
    assert waiting.ends(own)
    assert waiting.is_running(other)


def test_orphan_in_another_session_is_ended(start: Start, run: str) -> None:
    daemon = begin(start, LEAVE_A_DAEMON, run)
    assert os.getsid(daemon) == daemon
    assert leftover_processes.end_marked(f"ORCHESTRATOR_RUN={run}") >= 1
    assert waiting.ends(daemon)


def test_process_that_ignores_termination_is_killed(start: Start, run: str) -> None:
    stubborn = begin(start, STUBBORN, run)
    assert leftover_processes.end_marked(f"ORCHESTRATOR_RUN={run}", grace=0.2) == 1
    assert waiting.ends(stubborn)


def test_end_spares_the_caller_and_its_ancestors(start: Start, run: str) -> None:
    parent = start("-c", AS_A_CHILD, f"ORCHESTRATOR_RUN={run}", ORCHESTRATOR_RUN=run)
    assert waiting.read_line(parent) == f"1 {-signal.SIGTERM}"
    assert parent.wait() == 0


def test_ending_a_run_without_processes_ends_nothing(run: str) -> None:
    assert leftover_processes.end_marked(f"ORCHESTRATOR_RUN={run}") == 0


def test_program_sweeps_the_given_run(start: Start, run: str) -> None:
    pid = begin(start, SLEEP, run)
    subprocess.run([sys.executable, "-m", "orchestrator.trainer.supervision.leftover_processes", run], check=True)
    assert waiting.ends(pid)


# Adopts orphans, starts one without a run's mark, and prints its descendants before and after ending them.
ADOPT = f"""
import os, subprocess, sys
from orchestrator.trainer.supervision import leftover_processes
leftover_processes.adopt_orphans()
subprocess.run(["env", "-i", "setsid", "--fork", sys.executable, "-c", {SLEEP!r}], stdout=sys.stderr)
before = len(leftover_processes.descendants(os.getpid()))
ended = leftover_processes.end_marked("ORCHESTRATOR_RUN=none", with_descendants=sys.argv[1] == "own")
print(before, ended, len(leftover_processes.descendants(os.getpid())), flush=True)
leftover_processes.end_marked("ORCHESTRATOR_RUN=none", with_descendants=True)
"""


@pytest.mark.parametrize(("whose", "output"), [("own", "1 1 0"), ("marked", "1 0 1")])
def test_adopted_orphans_are_ended_on_request(start: Start, whose: str, output: str) -> None:
    assert waiting.read_line(start("-c", ADOPT, whose)) == output


def test_descendants_exclude_zombies(start: Start) -> None:
    nested = f"import subprocess, sys; subprocess.Popen(['true']); subprocess.run([sys.executable, '-c', {SLEEP!r}])"
    outer = start("-c", nested)
    inner = int(waiting.read_line(outer))
    assert waiting.until(lambda: leftover_processes.descendants(outer.pid) == {inner})
    assert {outer.pid, inner} <= leftover_processes.descendants(os.getpid())


# Ends its main thread only, like a large program that is being killed: the kernel shows a zombie that has a child.
END_THE_MAIN_THREAD = f"""
import ctypes, subprocess, sys, threading, time
subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
threading.Thread(target=time.sleep, args=[60]).start()
ctypes.CDLL(None).syscall({EXIT_OF_A_THREAD[platform.machine()]}, 0)
"""


def test_descendants_include_children_of_a_process_whose_main_thread_has_ended(start: Start) -> None:
    half = start("-c", END_THE_MAIN_THREAD)
    child = int(waiting.read_line(half))
    assert waiting.until(lambda: Path(f"/proc/{half.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert {half.pid, child} <= leftover_processes.descendants(os.getpid())
    half.kill()
    assert waiting.until(lambda: half.pid not in leftover_processes.descendants(os.getpid()))
    os.kill(child, signal.SIGKILL)


def test_reap_returns_the_exit_code_and_reaps_orphans(start: Start) -> None:
    code = """
import subprocess, time
from orchestrator.trainer.supervision import leftover_processes
leftover_processes.adopt_orphans()
child = subprocess.Popen(["sh", "-c", "setsid --fork true; sleep 0.2; kill -9 $$"])
while (code := leftover_processes.reap(child)) is None:
    time.sleep(0.01)
print(code, leftover_processes.reap(child))
"""
    assert waiting.read_line(start("-c", code)) == "137 137"
