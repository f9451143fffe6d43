"""The role trainer_container: the programs that it installs on a real node."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import packaged_files
from orchestrator.docker.engine import Engine
from tests.contract.conftest import ProgramResult, Root
from tests.contract.local_node import running_node
from tests.contract.test_ansible import Ansible, written

PLAYBOOK = """
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ansible.builtin.import_role: {name: trainer_container, tasks_from: install_programs}
"""
# A local node has the trainer itself, so the programs have other names here.
PROGRAMS = ["/opt/orchestrator/bin/of-container", "/usr/local/bin/of-container"]


def install(ansible: Ansible, shell: Callable[..., ProgramResult], directory: Path) -> ProgramResult:
    (directory / "site.yml").write_text(PLAYBOOK)
    variables = {
        "ansible_host": shell("hostname", "-I").text.split()[0],
        "ansible_user": "orchestrator",
        "ansible_ssh_private_key_file": str(directory / "key"),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
        "ansible_python_interpreter": "/usr/bin/python3",
        "trainer_container_programs": PROGRAMS,
    }
    inventory = {"all": {"hosts": {"node": variables}}}
    return ansible("ansible-playbook", "-i", written(directory, inventory), str(directory / "site.yml"))


def test_programs_are_installed_and_ask_for_the_container(
    root: Callable[[str], Root],
    docker_engine: Engine,
    node_image: str,
    ansible: Ansible,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(packaged_files.directory("ansible") / "roles"))
    with running_node(root("local"), tmp_path / "key") as shell:
        assert shell("sudo", "mv", "/opt/orchestrator", "/opt/trainer").code == 0  # a machine has no such directory
        assert install(ansible, shell, tmp_path).code == 0
        for program in PROGRAMS:
            result = shell(program, "--version")
            assert (result.code, "the trainer container does not run on" in result.text) == (1, True), result.text
        again = install(ansible, shell, tmp_path)
        assert (again.code, "changed=0" in again.text) == (0, True), again.text
        shell("sudo", "rm", PROGRAMS[0])
        shell("sudo", "touch", PROGRAMS[0])
        assert f"did not create at the paths of the trainer's programs, {PROGRAMS[0]}" in " ".join(
            install(ansible, shell, tmp_path).text.split()
        )
