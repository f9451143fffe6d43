"""The role grafana: which Grafana a deploy uses, and why it leaves Grafana out."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import packaged_files
from tests.contract.test_ansible import Ansible

ROLE = packaged_files.directory("ansible") / "roles" / "grafana"
INSTALL, RESULT = (
    "Install Grafana, unless an earlier attempt failed for the same reason",
    "Describe the result of the installation",
)
TAKEN = "127.0.0.1:3000 is taken by node (process 7 of eve)"
FREE_PORT: dict[str, Any] = {"taken_ports": {}}
TAKEN_PORT = {"taken_ports": {"grafana-server": TAKEN}}


def decide(ansible: Ansible, directory: Path, node: dict[str, Any], **variables: Any) -> tuple[str, bool]:
    """Return the result that the role records, and whether it installs Grafana before. Installs nothing."""
    tasks = {task["name"]: task for task in yaml.safe_load((ROLE / "tasks" / "present.yml").read_text())}
    values = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text()) | {"monitoring_grafana": "auto"} | variables
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": values | {"current_configuration_of_node": node},
        "tasks": [
            {"ansible.builtin.set_fact": {"grafana_installs": True}, "when": tasks[INSTALL]["when"]},
            tasks[RESULT],
            {"ansible.builtin.debug": {"msg": "{{ grafana_result }}|{{ grafana_installs | default(false) }}"}},
        ],
    }
    (directory / "play.yml").write_text(json.dumps([play]))
    result = ansible("ansible-playbook", "-i", "localhost,", "-c", "local", str(directory / "play.yml"))
    assert result.code == 0, result.text
    result_text, _, installs = result.text.partition('"msg": "')[2].partition('"')[0].partition("|")
    return result_text, installs == "True"


def state(**changes: Any) -> dict[str, Any]:
    return {"installed": False, "unmanaged": False, "docker": True, "image": True, "recorded": "there"} | changes


@pytest.mark.parametrize("image", [True, False])
def test_taken_port_leaves_grafana_out_without_installing_it(ansible: Ansible, tmp_path: Path, image: bool) -> None:
    assert decide(ansible, tmp_path, TAKEN_PORT, grafana_state=state(image=image)) == (f"localhost: {TAKEN}", False)


def test_container_of_terraform_has_the_port_itself(ansible: Ansible, tmp_path: Path) -> None:
    by_terraform = {"grafana_state": state(), "monitoring_grafana_by_terraform": True}
    assert decide(ansible, tmp_path, TAKEN_PORT, **by_terraform) == ("there", False)


def test_grafana_is_installed_once_its_port_is_free(ansible: Ansible, tmp_path: Path) -> None:
    recorded = state(image=False, recorded=f"localhost: {TAKEN}")
    assert decide(ansible, tmp_path, FREE_PORT, grafana_state=recorded)[1]
    assert decide(ansible, tmp_path, FREE_PORT, grafana_state=state()) == ("there", False)
