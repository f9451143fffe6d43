"""In the chain of a stop, who waits has more time than the programs below need."""

import re
import subprocess
import sys

from orchestrator import grace_periods, packaged_files
from orchestrator.config.section import MAX_NODES
from orchestrator.grace_periods import (
    AGENT,
    DAEMON,
    DRAIN,
    LAUNCHER,
    LEFTOVERS,
    MPI_RANK,
    NODE_SHUTDOWN,
    OTHER_HOSTS,
    OTHER_RANKS,
    RANK,
    STOP_COMMAND,
    SWEEP,
    SWEEP_EACH_HOST,
    TRAINER,
    UNIT,
    WRAPPER,
)
from orchestrator.trainer.supervision import supervise

HOROVODRUN_SECONDS = 5.0  # GRACEFUL_TERMINATION_TIME_S in Horovod's safe_shell_exec
MPIRUN_SECONDS = 1.0  # default of Open MPI's odls_base_sigkill_timeout
NODE_ROLE = packaged_files.directory("ansible") / "roles" / "node"


def test_control_side_waits_longer_than_systemd() -> None:
    assert STOP_COMMAND > UNIT


def test_systemd_waits_for_all_steps_of_the_supervisor() -> None:
    assert UNIT > TRAINER + LAUNCHER + LEFTOVERS + SWEEP + SWEEP_EACH_HOST * MAX_NODES


def test_sweep_may_connect_and_end_processes() -> None:
    options = (option.partition("=") for option in supervise.SSH)
    connect = next(float(value) for name, _, value in options if name == "ConnectTimeout")
    assert connect + LEFTOVERS < SWEEP


def test_supervisor_waits_for_the_agents_and_their_output() -> None:
    assert LAUNCHER >= AGENT + DRAIN


def test_launcher_waits_for_both_steps_of_an_agent() -> None:
    assert AGENT > WRAPPER + LEFTOVERS


def test_agent_waits_for_the_wrapper_and_its_output() -> None:
    assert WRAPPER >= RANK + DRAIN
    assert WRAPPER >= DAEMON


def test_rank_is_killed_before_horovodrun_and_mpirun_kill_its_wrapper() -> None:
    assert RANK < HOROVODRUN_SECONDS
    assert MPI_RANK < MPIRUN_SECONDS


def test_launcher_waits_for_other_hosts_whose_agents_wait_for_other_ranks() -> None:
    assert OTHER_HOSTS > OTHER_RANKS


def test_hook_at_shutdown_gives_a_trainer_its_time() -> None:
    script = (NODE_ROLE / "files" / "save_checkpoints_at_shutdown.sh").read_text()
    unit = (NODE_ROLE / "templates" / "trainer-shutdown-checkpoint.service.j2").read_text()
    waited = _number(r"seq (\d+)", script) * _number(r"sleep ([\d.]+)", script)
    assert waited == NODE_SHUTDOWN < _number(r"TimeoutStopSec=(\d+)", unit)


def test_docstring_names_every_period() -> None:
    periods = [name for name in vars(grace_periods) if name.isupper()]
    assert [name for name in periods if f"``{name}``" not in str(grace_periods.__doc__)] == []


def test_wrapper_gets_its_periods_without_an_import() -> None:
    """Every rank has a wrapper: pydantic alone would take three times the CPU of all else that it does."""
    code = "import sys; before = set(sys.modules); import orchestrator.grace_periods; print(set(sys.modules) - before)"
    added = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert sorted(re.findall(r"'([^']+)'", added)) == ["orchestrator", "orchestrator.grace_periods"]


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return float(found[1])
