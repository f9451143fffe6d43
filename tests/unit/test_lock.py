"""One process at a time works on a cluster: held by a real second process."""

import re
import signal
from pathlib import Path

import pytest

from orchestrator import lock, process, state, termination
from orchestrator.errors import ConfigError, StateError
from tests import waiting
from tests.unit.conftest import Start

HOLD = """
import sys, time
from orchestrator import lock, state
with lock.held(state.for_cluster("demo")):
    print("held")
    sys.stdin.read()
"""
# As a killed deploy leaves it: the holder is gone, its Terraform (here a sleep) still works for the cluster.
LEAVE_A_CHILD = """
import sys, subprocess
from orchestrator import lock, state
with lock.held(state.for_cluster("demo")):
    print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True).pid)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_with_the_pid_of_the_holder(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.line(holder) == "held"
    with pytest.raises(StateError) as caught, lock.held(state.for_cluster("demo")):
        pass
    assert re.search(rf"'demo' is locked by pid {holder.pid} since \d{{4}}-\d\d-\d\d", caught.value.message)


def test_clusters_of_other_names_are_free(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.line(holder) == "held"
    with lock.held(state.for_cluster("other")):
        assert (state.for_cluster("other").path / "lock").exists()


def test_the_lock_is_free_again_once_its_holder_ends(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.line(holder) == "held"
    holder.communicate("")
    with lock.held(state.for_cluster("demo")):
        assert holder.returncode == 0


def test_the_lock_is_free_again_once_its_holder_is_killed(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.line(holder) == "held"
    holder.kill()
    assert holder.wait() == -signal.SIGKILL
    with lock.held(state.for_cluster("demo")):
        assert not waiting.runs(holder.pid)


def test_what_a_killed_holder_left_running_is_ended_by_the_next(start: Start) -> None:
    holder = start("-c", LEAVE_A_CHILD)
    orphan = int(waiting.line(holder))
    holder.kill()
    holder.wait()
    assert waiting.runs(orphan)
    with lock.held(state.for_cluster("demo")):
        assert waiting.ends(orphan)


def test_the_lock_is_free_again_after_an_error(start: Start) -> None:
    with pytest.raises(ZeroDivisionError), lock.held(state.for_cluster("demo")):
        raise ZeroDivisionError
    holder = start("-c", HOLD)
    assert waiting.line(holder) == "held"


def test_programs_started_under_the_lock_are_marked_as_working_for_the_cluster(tmp_path: Path) -> None:
    with lock.held(state.for_cluster("demo")):
        result = process.run("look", ["sh", "-c", f"echo ${termination.OWNER}"])
    assert result.strip() == str(state.for_cluster("demo").path)


def test_a_state_directory_that_cannot_be_made_is_refused_with_the_way_out(
    own_directories: Path, tmp_path: Path
) -> None:
    own_directories.touch()  # a file stands where the directory of all clusters should be
    with pytest.raises(ConfigError) as caught, lock.held(state.for_cluster("demo")):
        pass
    assert "XDG_STATE_HOME" in caught.value.hint


def test_a_lock_that_is_waited_for_too_long_is_an_error_that_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with (
        lock.waited(path, "packs", 0.0),
        pytest.raises(StateError, match="another command that packs has not ended") as caught,
        lock.waited(path, "packs", 0.2),
    ):
        pass
    assert caught.value.hint == f"`fuser {path}` shows its process: end it"
