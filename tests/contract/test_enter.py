"""From a node into its trainer container: what is called there is the program inside, and nothing stands between.

The node is a container of the node image, in which a mount namespace of its own stands in for the trainer's container.
"""

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
import yaml
from docker.models.containers import Container

from orchestrator import packaged_files
from orchestrator.docker.engine import Engine
from tests.contract.conftest import Said

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

Call = Callable[..., Said]


def sudoers() -> str:
    """What the role writes."""
    tasks = yaml.safe_load((ROLE / "tasks" / "main.yml").read_text())
    return str(next(task[MODULE]["block"] for task in tasks if "sudoers" in task.get(MODULE, {}).get("path", "")))


@pytest.fixture(scope="module")
def machine(docker_engine: Engine, node_image: str) -> Iterator[Container]:
    container = docker_engine.client.containers.run(
        node_image,
        ["-c", PREPARE.replace("{sudoers}", sudoers())],
        entrypoint=["sh"],
        cap_add=["SYS_ADMIN"],
        security_opt=["apparmor=unconfined"],
        volumes={str(ROLE / "files" / "enter"): {"bind": "/opt/orchestrator/bin/enter", "mode": "ro"}},
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
    """Runs a line of shell there, as the account that runs are started as."""

    def call(line: str, stdin: str = "") -> Said:
        argv = ["docker", "exec", "-i", "-u", "orchestrator", "-w", "/srv", str(machine.id), "sh", "-c", line]
        finished = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        return Said(finished.returncode, finished.stdout + finished.stderr)

    return call


def test_a_program_sees_the_files_inside_and_all_else_of_its_caller(shell: Call) -> None:
    variables = {"ODD": "a b\nc=d", "LD_LIBRARY_PATH": "/x", "TMPDIR": "/tmp", "PYTHONPATH": "/y", "PATH": "/z"}
    setting = " ".join(f"{name}='{value}'" for name, value in variables.items())
    result = shell(f"umask 027; {setting} exec /called/python -c '{TELL}' 'one word' '*'")
    facts = json.loads(result.text)
    assert facts["files"] == ["inside"]
    assert (facts["ids"], facts["groups"], facts["umask"]) == ([1000, 1000, 1000], [1000], 0o027)
    assert (facts["directory"], facts["argv"]) == ("/srv", ["-c", "one word", "*"])
    assert facts["environment"].items() >= {**variables, "HOME": "/home/orchestrator"}.items()
    assert not {name for name in facts["environment"] if name.startswith(("SUDO_", "ORCHESTRATOR_"))}


def test_a_program_is_the_process_that_was_started(shell: Call) -> None:
    result = shell("/called/python -c 'import os; print(os.getpid())' & echo $!; wait $!")
    assert len(set(result.text.split())) == 1


def test_its_exit_code_and_its_input_are_its_own(shell: Call) -> None:
    assert shell("/called/python -c 'raise SystemExit(7)'").code == 7
    assert shell("/called/python -c 'print(input())'", stdin="a line\n").text == "a line\n"


def test_a_signal_from_its_caller_ends_it(shell: Call) -> None:
    program = 'open("/tmp/up", "w"); import time; time.sleep(50)'
    result = shell(f"/called/python -c '{program}' & until [ -e /tmp/up ]; do sleep 0.1; done; kill $! && wait $!")
    assert result.code == 128 + 15


def test_it_ignores_no_signal_that_its_caller_does_not(shell: Call) -> None:
    result = shell("grep SigIgn /proc/self/status; /called/grep SigIgn /proc/self/status")
    assert len(set(result.text.splitlines())) == 1


def test_a_container_that_does_not_run_is_said_to(machine: Container, shell: Call) -> None:
    machine.exec_run(["mv", "/run/orchestrator/trainer.pid", "/run/trainer.pid"])
    result = shell("/called/python -c 1")
    machine.exec_run(["mv", "/run/trainer.pid", "/run/orchestrator/trainer.pid"])
    assert (result.code, "the trainer container does not run on localhost" in result.text) == (1, True)


def test_a_directory_that_is_not_inside_is_refused(shell: Call) -> None:
    assert shell("ls").text == "outside\n"
    result = shell("cd outside && /called/python -c 1")
    assert (result.code, result.text) == (
        125,
        "/opt/orchestrator/bin/enter: [Errno 2] No such file or directory: '/srv/outside'\n",
    )
