"""A node of the provider `local` that Terraform creates for a test, with a sudo user and without Ansible."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path

from orchestrator.config import Config
from orchestrator.providers import local
from orchestrator.ssh import key_pair
from orchestrator.state import Record
from tests.contract.conftest import ProgramResult, Root
from tests.contract.test_terraform_local import VARIABLES

CLUSTER = f"escapes-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"  # tests of one worker run one after the other
NODE = f"{CLUSTER}-head"
WAIT_SECONDS = 60
APPLY = ("apply", "-input=false", "-no-color", "-auto-approve")
DESTROY = ("destroy", "-input=false", "-no-color", "-auto-approve")
SSH = ("ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")

Shell = Callable[..., ProgramResult]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS} seconds"
        time.sleep(0.5)


@contextmanager
def running_node(root: Root, key: Path, inside: Sequence[str] = (), targets: Sequence[str] = ()) -> Iterator[Shell]:
    """Run commands by ssh in a new node as its user; ``stdin`` is their standard input.

    Args:
        root: A copy of terraform/local.
        key: Where to create the user's private key.
        inside: A command prefix of ssh, such as ``nsenter``.
        targets: The only resources to create; all of them if empty.
    """
    own = {"name": CLUSTER, "id": CLUSTER, "nodes": 1, "ssh_public_key": key_pair.public_half(key)}
    variables = local.variables(Config(name=CLUSTER, nodes=1), Record(id=CLUSTER, config={}))
    address = IPv4Network(variables["subnet"])[10]
    root.write_variables({**VARIABLES, **own, "local": variables})

    def run(*command: str, stdin: str = "") -> ProgramResult:
        argv = [*inside, *SSH, "-i", str(key), f"orchestrator@{address}", *command]
        finished = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        return ProgramResult(finished.returncode, finished.stdout + finished.stderr)

    try:
        result = root.run(*APPLY, *(f"-target={target}" for target in targets))
        assert result.code == 0, result.text
        wait_until(lambda: run("sudo", "systemctl", "is-system-running").text.strip() == "running", "systemd")
        yield run
    finally:
        result = root.run(*DESTROY)
        assert result.code == 0, result.text
