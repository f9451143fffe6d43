"""Only one process works on a cluster; a real second process has the lock."""

import contextlib
import errno
import fcntl
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from orchestrator import process, state
from orchestrator.errors import ConfigError, StateError
from orchestrator.process import interrupts
from orchestrator.state import cluster_lock
from tests import waiting
from tests.unit.conftest import Start

HOLD = """
import sys, time
from orchestrator import state
from orchestrator.state import cluster_lock
with cluster_lock.held(state.for_cluster("demo")):
    print("held")
    sys.stdin.read()
"""
# State after a killed deploy: the lock holder is gone, its Terraform (here a sleep) still runs.
LEAVE_A_CHILD = """
import sys, subprocess
from orchestrator import state
from orchestrator.state import cluster_lock
with cluster_lock.held(state.for_cluster("demo")):
    print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True).pid)
    sys.stdin.read()
"""


def test_second_process_is_refused_with_the_pid_of_the_holder(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.read_line(holder) == "held"
    with pytest.raises(StateError) as caught, cluster_lock.held(state.for_cluster("demo")):
        pass
    lock = rf"'demo' is locked by pid {holder.pid} on {re.escape(socket.gethostname())} since \d{{4}}-\d\d-\d\d"
    assert re.search(lock, caught.value.message)


def test_clusters_of_other_names_are_free(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.read_line(holder) == "held"
    with cluster_lock.held(state.for_cluster("other")):
        assert (state.for_cluster("other").path / "lock").exists()


def test_lock_is_released_when_its_holder_ends(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.read_line(holder) == "held"
    holder.communicate("")
    with cluster_lock.held(state.for_cluster("demo")):
        assert holder.returncode == 0


def test_lock_is_released_when_its_holder_is_killed(start: Start) -> None:
    holder = start("-c", HOLD)
    assert waiting.read_line(holder) == "held"
    holder.kill()
    assert holder.wait() == -signal.SIGKILL
    with cluster_lock.held(state.for_cluster("demo")):
        assert not waiting.is_running(holder.pid)


@pytest.mark.parametrize("before", [None, "/another"])
def test_programs_are_marked_only_while_the_lock_is_held(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    """A study that deployed follows runs afterwards: a later command must not end its programs."""
    monkeypatch.delenv(interrupts.OWNER, raising=False)
    if before:
        monkeypatch.setenv(interrupts.OWNER, before)
    with contextlib.suppress(KeyboardInterrupt), cluster_lock.held(state.for_cluster("demo")):
        assert os.environ[interrupts.OWNER] == str(state.for_cluster("demo").path)
        raise KeyboardInterrupt
    assert os.environ.get(interrupts.OWNER) == before


def test_programs_of_a_killed_holder_are_ended_by_the_next(start: Start) -> None:
    holder = start("-c", LEAVE_A_CHILD)
    orphan = int(waiting.read_line(holder))
    holder.kill()
    holder.wait()
    assert waiting.is_running(orphan)
    with cluster_lock.held(state.for_cluster("demo")):
        assert waiting.ends(orphan)


def test_lock_is_released_after_an_error(start: Start) -> None:
    with pytest.raises(ZeroDivisionError), cluster_lock.held(state.for_cluster("demo")):
        raise ZeroDivisionError
    holder = start("-c", HOLD)
    assert waiting.read_line(holder) == "held"


def test_programs_under_the_lock_are_marked_with_the_cluster(tmp_path: Path) -> None:
    with cluster_lock.held(state.for_cluster("demo")):
        result = process.run("look", ["sh", "-c", f"echo ${interrupts.OWNER}"])
    assert result.strip() == str(state.for_cluster("demo").path)


def test_state_directory_that_cannot_be_made_names_the_remedy(own_directories: Path, tmp_path: Path) -> None:
    own_directories.touch()  # a file in place of the directory of all clusters
    with pytest.raises(ConfigError) as caught, cluster_lock.held(state.for_cluster("demo")):
        pass
    assert "XDG_STATE_HOME" in caught.value.hint


def test_timeout_of_a_lock_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with (
        cluster_lock.waited(path, "packs", 0.0),
        pytest.raises(StateError, match="another command that packs has not ended") as caught,
        cluster_lock.waited(path, "packs", 0.2),
    ):
        pass
    assert caught.value.hint == f"`fuser {path}` shows its process: end it"


def test_file_system_without_locks_is_an_error_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))  # as flock does on NFS without its lock service

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(ConfigError, match="No locks available") as caught,
        cluster_lock.waited(tmp_path / "lock", "builds an image", 0.0, "XDG_CACHE_HOME"),
    ):
        pass
    assert "XDG_CACHE_HOME" in caught.value.hint
