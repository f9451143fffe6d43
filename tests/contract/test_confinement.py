"""Root in a local node cannot escape to the machine: known escapes are tried from its shell, a unit and process 1."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.docker.engine import Engine
from tests.contract.conftest import ProgramResult, Root
from tests.contract.local_node import NODE, Shell, running_node, wait_until

PROGRAM = Path(__file__).with_name("escapes.py")
REPLACED_INIT = """#!/bin/sh
python3 /shared/escapes.py > /shared/said-by-process-1 2>&1
exec /usr/local/sbin/node-init.real
"""


@pytest.fixture
def shell(root: Callable[[str], Root], docker_engine: Engine, node_image: str, tmp_path: Path) -> Iterator[Shell]:
    """Return a function that runs a command in a node."""
    with running_node(root("local"), tmp_path / "key") as run:
        yield run


def refused(result: ProgramResult) -> None:
    print(result.text)
    assert "refused  nsenter" in result.text, result.text
    assert "OPEN" not in result.text, result.text


def try_from_shell_and_unit(shell: Shell) -> None:
    assert shell("sudo", "tee", "/shared/escapes.py", stdin=PROGRAM.read_text()).code == 0
    refused(shell("sudo", "python3", "/shared/escapes.py"))
    oneshot = ("--service-type", "oneshot", "--property", "StandardOutput=file:/shared/said")
    shell("sudo", "systemd-run", "--quiet", *oneshot, "python3", "/shared/escapes.py")
    refused(shell("cat", "/shared/said"))


def test_no_escape_works_from_shell_unit_or_replaced_process_1(shell: Shell, docker_engine: Engine) -> None:
    try_from_shell_and_unit(shell)
    replace = "cd /usr/local/sbin && mv node-init node-init.real && install /dev/stdin node-init"
    assert shell("sudo", "sh", "-c", f"'{replace}'", stdin=REPLACED_INIT).code == 0
    docker_engine.client.containers.get(NODE).restart(timeout=5)
    wait_until(lambda: shell("true").code == 0, "sshd")
    refused(shell("cat", "/shared/said-by-process-1"))


def test_sandboxed_units_start_without_the_required_privilege(shell: Shell) -> None:
    services = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
    result = shell("sudo", "systemctl", "start", *services)
    assert result.code == 0, result.text
    time.sleep(2)  # a unit whose sandbox cannot be created ends after its start
    assert shell("sudo", "systemctl", "is-active", *services).text.split() == ["active"] * len(services)


def test_node_has_no_capability_over_the_machine(shell: Shell) -> None:
    status = shell("sudo", "python3", "-c", "'print(open(\"/proc/1/status\").read())'").text
    bounding = int(next(line for line in status.splitlines() if line.startswith("CapBnd")).split()[1], 16)
    numbers = {"CAP_NET_RAW": 13, "CAP_SYS_MODULE": 16, "CAP_SYS_RAWIO": 17, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21,
               "CAP_MKNOD": 27}  # fmt: skip
    assert {name for name, number in numbers.items() if bounding >> number & 1} == set()
    assert "Seccomp:\t2" in status
