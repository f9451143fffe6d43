"""Parts of ssh that need no node: commands, and answers of many nodes."""

import subprocess
import sys
import threading
import time

import pytest

from orchestrator import ssh, state
from orchestrator.ssh import Unreachable
from tests import builders


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
        *("-i", str(state_dir.key)),
        *("-F", "/dev/null"),
        *("-o", f'UserKnownHostsFile="{state_dir.known_hosts}"'),
        *("-o", "StrictHostKeyChecking=yes"),
        *("-o", "IdentitiesOnly=yes"),
        *("-o", "ServerAliveInterval=10"),
        *("-o", "ServerAliveCountMax=3"),
        *("-o", "ConnectTimeout=10"),
        *("-p", "22"),
        "orchestrator@10.0.0.11",
        "ls -l",
    ]


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
