"""The role current_configuration: a deploy skips machines that are unchanged since the last one.

The role's own tasks run on this machine for simulated nodes.
"""

import getpass
import json
import platform
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import packaged_files
from tests import builders
from tests.contract.conftest import ProgramResult
from tests.contract.test_ansible import Ansible, machines, written

PLAYBOOK = """
- hosts: nfs
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: current_configuration, tasks_from: read}
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ groups['configured'] | default([]) | to_json }}"}
    - ansible.builtin.debug: {msg: "{{ hostvars['demo-head'].current_configuration_of_node | to_json }}"}
- hosts: unconfigured
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: current_configuration, tasks_from: record_checksums}
"""
SAID = re.compile(r'"msg": "(.*)"')

Deploy = Callable[..., tuple[list[str], dict[str, Any]]]


@pytest.fixture
def deploy(ansible: Ansible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deploy:
    """Read the configuration of simulated machines and record it; return the unchanged ones, and that of the head."""
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(packaged_files.directory("ansible") / "roles"))
    (tmp_path / "roles").mkdir()
    playbook = tmp_path / "roles" / "site.yml"
    playbook.write_text(PLAYBOOK)
    (tmp_path / "promised").write_text("as it was left")
    settings = {
        "ansible_connection": "local",
        "ansible_user": getpass.getuser(),
        "current_configuration_record": f"{tmp_path}/left/{{{{ inventory_hostname }}}}",
        "current_configuration_files": [str(tmp_path / "promised"), str(tmp_path / "never-made")],
        "current_configuration_units": [],
    }

    def run(nodes: int = 2, **variables: Any) -> tuple[list[str], dict[str, Any]]:
        inventory = builders.inventory(machines(nodes), **variables)
        inventory["all"]["vars"] |= settings
        result: ProgramResult = ansible("ansible-playbook", "-i", written(tmp_path, inventory), str(playbook))
        assert result.code == 0, result.text
        configured, head = (json.loads(json.loads(f'"{text}"')) for text in SAID.findall(result.text))
        return sorted(configured), head  # nodes join a group as they answer

    return run


def test_machine_is_unchanged_once_recorded(deploy: Deploy) -> None:
    configured, head = deploy()
    assert configured == []
    release = platform.freedesktop_os_release()
    assert (head["system"], head["kernel"]) == (f"{release['ID']} {release['VERSION_ID']}", platform.release())
    assert head["hostname_resolves"] == (socket.gethostname() in Path("/etc/hosts").read_text().split())
    assert (deploy()[0], deploy()[0]) == (["demo-head", "demo-worker-0"], ["demo-head", "demo-worker-0"])


def test_changed_file_is_detected(deploy: Deploy, tmp_path: Path) -> None:
    deploy()
    (tmp_path / "promised").write_text("as someone left it")
    assert deploy()[0] == []


def test_new_worker_changes_only_the_head(deploy: Deploy) -> None:
    deploy()
    assert deploy(nodes=3)[0] == ["demo-worker-0"]


def test_other_trainer_image_changes_all(deploy: Deploy) -> None:
    deploy()
    assert deploy(trainer_image="orchestrator-trainer:2")[0] == []


def test_other_password_changes_all(deploy: Deploy, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one")
    deploy(jupyter_secret=str(secret))
    secret.write_text("two")
    assert deploy(jupyter_secret=str(secret))[0] == []


def test_other_license_token_changes_all(deploy: Deploy, tmp_path: Path) -> None:
    token = tmp_path / "client.tok"
    token.write_text("one")
    deploy(gpu_vgpu_token=str(token))
    token.write_text("two")
    assert deploy(gpu_vgpu_token=str(token))[0] == []


def test_head_reports_the_shared_image_archive(deploy: Deploy, tmp_path: Path) -> None:
    parcel = tmp_path / "parcel"
    assert deploy(trainer_shared_archive=str(parcel))[1]["shared_archive"] is False
    parcel.touch()
    assert deploy(trainer_shared_archive=str(parcel))[1]["shared_archive"] is True


def test_other_monitoring_rule_changes_all(deploy: Deploy, tmp_path: Path) -> None:
    deploy(monitoring=True)
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "alerts.yml").write_text("another")
    assert deploy(monitoring=True)[0] == []


def test_other_alert_receiver_changes_all(deploy: Deploy, tmp_path: Path) -> None:
    receivers = tmp_path / "alertmanager.json"
    receivers.write_text("one")
    deploy(monitoring=True, monitoring_alertmanager=str(receivers))
    receivers.write_text("two")
    assert deploy(monitoring=True, monitoring_alertmanager=str(receivers))[0] == []


def test_other_monitoring_target_changes_only_the_head(deploy: Deploy) -> None:
    deploy(monitoring=True)
    assert deploy(nodes=3, monitoring=True)[0] == ["demo-worker-0"]


def test_monitoring_services_are_reported(deploy: Deploy) -> None:
    head = deploy()[1]
    programs = [Path("/usr/bin", name) for name in ("prometheus", "prometheus-alertmanager")]
    assert head["node_exporter"] == bool(shutil.which("prometheus-node-exporter"))
    assert head["prometheus"] == all(path.exists() for path in programs)
    assert head["unmanaged_units"] == ""
