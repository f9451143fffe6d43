"""Parts of ssh that need no node: commands, and answers of many nodes."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from orchestrator import ssh, state
from orchestrator.ssh import Unreachable
from tests import builders
from tests.stand_ins import ssh_stand_in


def test_at_most_eight_connections_at_once_through_a_jump_host() -> None:
    threads: dict[str, int] = {}

    def ask(name: str) -> None:
        threads[name] = threading.get_ident()
        time.sleep(0.2)  # so that a further call takes a further thread

    ssh.on_every_node(builders.cluster(nodes=12).model_copy(update={"jump": "student@gate.example.org:22"}), ask)
    assert len(threads) == 12
    assert len(set(threads.values())) == 8


def test_terminal_command_uses_own_key_and_pinned_host_key() -> None:
    state_dir = state.for_cluster("demo")
    assert ssh.client_command(state_dir, builders.cluster(), "demo-worker-0", ["ls -l"]) == [
        "ssh",
        *("-o", f'IdentityFile="{state_dir.key}"'),
        *("-F", "/dev/null"),
        *("-o", f'UserKnownHostsFile="{state_dir.known_hosts}"'),
        *("-o", "GlobalKnownHostsFile=/dev/null"),
        *("-o", "StrictHostKeyChecking=yes"),
        *("-o", "IdentitiesOnly=yes"),
        *("-o", "ServerAliveInterval=10"),
        *("-o", "ServerAliveCountMax=3"),
        *("-o", "ConnectTimeout=10"),
        *("-p", "22"),
        "orchestrator@10.0.0.11",
        "ls -l",
    ]


@pytest.mark.parametrize("name", ["50% done", "%h", "it's", 'so "called"', "back\\slash \\", "{curly} #1"])
def test_terminal_command_works_with_any_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))
    with ssh_stand_in.listening(ssh_stand_in.honest) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key)
        command = ssh.client_command(state_dir, cluster, "demo-head", ["echo hello"], ["-o", "BatchMode=yes"])
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("hello\n", "")


def test_all_nodes_are_contacted_and_failures_have_reasons() -> None:
    def ask(name: str) -> str:
        if name == "demo-worker-1":
            raise Unreachable("timed out")
        return name.upper()

    answers, reasons = ssh.on_every_node(builders.cluster(nodes=4), ask)
    assert list(answers.items()) == [
        ("demo-head", "DEMO-HEAD"),
        ("demo-worker-0", "DEMO-WORKER-0"),
        ("demo-worker-2", "DEMO-WORKER-2"),
    ]
    assert reasons == {"demo-worker-1": "timed out"}


def test_own_bug_on_one_node_is_not_a_lost_node() -> None:
    def ask(name: str) -> None:
        raise ZeroDivisionError(name)

    with pytest.raises(ZeroDivisionError):
        ssh.on_every_node(builders.cluster(), ask)


INTERRUPTED = """
import os, signal, time
from orchestrator import ssh

def ask(name):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(120)

ssh.in_parallel(["hangs"], ask)
"""


def test_interrupted_command_does_not_wait_for_a_node_that_hangs() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_every_public_name_exists() -> None:
    assert [name for name in ssh.__all__ if not hasattr(ssh, name)] == []
