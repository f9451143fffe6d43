"""Start programs of a node's trainer container through `enter`, which keeps environment, input, exit code and signals.

The node is a container of the node image; a mount namespace stands in for the trainer's container.
"""

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
import yaml
from docker.models.containers import Container

from orchestrator import packaged_files
from orchestrator.docker.engine import Engine
from tests.contract.conftest import ProgramResult

ROLE = packaged_files.directory("ansible") / "roles" / "trainer_container"
MODULE = "ansible.builtin.blockinfile"
PREPARE = """
mkdir -p /called /run/orchestrator /srv/outside
for program in python grep; do ln -s /opt/orchestrator/bin/enter /called/$program; done
echo '{sudoers}' > /etc/sudoers.d/60-orchestrator && chmod 0440 /etc/sudoers.d/60-orchestrator && visudo --check
unshare --mount sh -c 'mount -t tmpfs inside /srv && touch /srv/inside && echo $$ > /run/orchestrator/trainer.pid
exec sleep infinity' &
exec sleep infinity
"""
TELL = """
import json, os, sys
print(json.dumps({"files": os.listdir(), "pid": os.getpid(), "ids": os.getresuid(), "groups": os.getgroups(),
                  "umask": os.umask(0), "directory": os.getcwd(), "environment": dict(os.environ), "argv": sys.argv}))
"""

Call = Callable[..., ProgramResult]


def sudoers() -> str:
    """Return the sudoers rules that the role writes."""
    tasks = yaml.safe_load((ROLE / "tasks" / "install_programs.yml").read_text())
    return str(next(task[MODULE]["block"] for task in tasks if "sudoers" in task.get(MODULE, {}).get("path", "")))


@pytest.fixture(scope="module")
def machine(docker_engine: Engine, node_image: str) -> Iterator[Container]:
    container = docker_engine.client.containers.run(
        node_image,
        ["-c", PREPARE.replace("{sudoers}", sudoers())],
        entrypoint=["sh"],
        cap_add=["SYS_ADMIN"],
        security_opt=["apparmor=unconfined"],
        volumes={str(ROLE / "files" / "enter_container.py"): {"bind": "/opt/orchestrator/bin/enter", "mode": "ro"}},
        network_mode="none",
        hostname="localhost",
        detach=True,
    )
    try:
        container.exec_run(["sh", "-c", "until [ -s /run/orchestrator/trainer.pid ]; do sleep 0.1; done"])
        yield container
    finally:
        container.remove(force=True)


@pytest.fixture
def shell(machine: Container) -> Call:
    """Return a function that runs a shell line on the node as the account of runs."""

    def call(line: str, stdin: str = "") -> ProgramResult:
        argv = ["docker", "exec", "-i", "-u", "orchestrator", "-w", "/srv", str(machine.id), "sh", "-c", line]
        finished = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        return ProgramResult(finished.returncode, finished.stdout + finished.stderr)

    return call


def test_program_sees_container_files_and_caller_environment(shell: Call) -> None:
    variables = {"ODD": "a b\nc=d", "LD_LIBRARY_PATH": "/x", "TMPDIR": "/tmp", "PYTHONPATH": "/y", "PATH": "/z"}
    setting = " ".join(f"{name}='{value}'" for name, value in variables.items())
    result = shell(f"umask 027; {setting} exec /called/python -c '{TELL}' 'one word' '*'")
    facts = json.loads(result.text)
    assert facts["files"] == ["inside"]
    assert (facts["ids"], facts["groups"], facts["umask"]) == ([1000, 1000, 1000], [1000], 0o027)
    assert (facts["directory"], facts["argv"]) == ("/srv", ["-c", "one word", "*"])
    assert facts["environment"].items() >= {**variables, "HOME": "/home/orchestrator"}.items()
    assert not {name for name in facts["environment"] if name.startswith(("SUDO_", "ORCHESTRATOR_"))}


def test_program_keeps_the_process_id(shell: Call) -> None:
    result = shell("/called/python -c 'import os; print(os.getpid())' & echo $!; wait $!")
    assert len(set(result.text.split())) == 1


def test_program_keeps_exit_code_and_input(shell: Call) -> None:
    assert shell("/called/python -c 'raise SystemExit(7)'").code == 7
    assert shell("/called/python -c 'print(input())'", stdin="a line\n").text == "a line\n"


def test_signal_of_the_caller_ends_the_program(shell: Call) -> None:
    program = 'open("/tmp/up", "w"); import time; time.sleep(50)'
    result = shell(f"/called/python -c '{program}' & until [ -e /tmp/up ]; do sleep 0.1; done; kill $! && wait $!")
    assert result.code == 128 + 15


def test_program_ignores_the_same_signals_as_its_caller(shell: Call) -> None:
    result = shell("grep SigIgn /proc/self/status; /called/grep SigIgn /proc/self/status")
    assert len(set(result.text.splitlines())) == 1


def test_stopped_container_is_reported(machine: Container, shell: Call) -> None:
    machine.exec_run(["mv", "/run/orchestrator/trainer.pid", "/run/trainer.pid"])
    result = shell("/called/python -c 1")
    machine.exec_run(["mv", "/run/trainer.pid", "/run/orchestrator/trainer.pid"])
    assert (result.code, "the trainer container does not run on localhost" in result.text) == (1, True)


def test_directory_missing_in_the_container_is_refused(shell: Call) -> None:
    assert shell("ls").text == "outside\n"
    result = shell("cd outside && /called/python -c 1")
    assert (result.code, result.text) == (
        125,
        "/opt/orchestrator/bin/enter: [Errno 2] No such file or directory: '/srv/outside'\n",
    )
