"""The role current_configuration: a deploy skips machines that are unchanged since the last one.

The role's own tasks run on this machine for simulated nodes.
"""

import getpass
import json
import os
import platform
import pwd
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import packaged_files
from orchestrator.ansible.inventory import EXPORTERS
from orchestrator.monitoring.connection import ALERTMANAGER, GRAFANA, PROMETHEUS
from orchestrator.services.jupyter import SERVER
from tests import builders
from tests.contract.conftest import ProgramResult
from tests.contract.test_ansible import Ansible, machines, written

PLAYBOOK = """
- hosts: nfs
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: current_configuration, tasks_from: skip_configured_nodes}
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
ROLES = packaged_files.directory("ansible") / "roles"
SAID = re.compile(r'"msg": "(.*)"')

Deploy = Callable[..., tuple[list[str], dict[str, Any]]]


@pytest.fixture
def deploy(ansible: Ansible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deploy:
    """Read the configuration of simulated machines and record it; return the unchanged ones, and that of the head."""
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(ROLES))
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
        "current_configuration_ssh": str(tmp_path / "ssh"),
    }
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh" / "id_ed25519.pub").write_text("ssh-ed25519 AAAAC3 demo-head\n")
    (tmp_path / "ssh" / "authorized_keys2").write_text('from="10.0.0.10" ssh-ed25519 AAAAC3 demo-head\n')

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
    assert head["home"] == pwd.getpwuid(os.getuid()).pw_dir
    assert head["hostname_resolves"] == (socket.gethostname() in Path("/etc/hosts").read_text().split())
    assert (deploy()[0], deploy()[0]) == (["demo-head", "demo-worker-0"], ["demo-head", "demo-worker-0"])


def test_changed_file_is_detected(deploy: Deploy, tmp_path: Path) -> None:
    deploy()
    (tmp_path / "promised").write_text("as someone left it")
    assert deploy()[0] == []


@pytest.mark.parametrize("key", [None, "ssh-ed25519 AAAAC4 demo-head\n"])
def test_other_key_of_the_head_changes_all(deploy: Deploy, tmp_path: Path, key: str | None) -> None:
    deploy()
    public = tmp_path / "ssh" / "id_ed25519.pub"
    public.write_text(key) if key else public.unlink()
    assert deploy()[0] == []


def test_new_worker_changes_only_the_head(deploy: Deploy) -> None:
    deploy()
    assert deploy(nodes=3)[0] == ["demo-worker-0"]


def test_other_trainer_image_changes_all(deploy: Deploy) -> None:
    deploy()
    assert deploy(trainer_image="orchestrator-unpacked:2")[0] == []


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


@pytest.mark.parametrize(("host", "conflicts"), [("127.0.0.1", True), ("0.0.0.0", True), ("127.0.0.2", False)])  # noqa: S104
def test_taken_port_is_reported_with_its_process(deploy: Deploy, host: str, conflicts: bool) -> None:
    with socket.create_server((host, 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        head = deploy(current_configuration_ports={"notebook": address, "grafana-server": "127.0.0.1:1"})[1]
    process = f"{Path('/proc/self/comm').read_text().strip()} (process {os.getpid()} of {getpass.getuser()})"
    assert head["taken_ports"] == ({"notebook": f"{address} is taken by {process}"} if conflicts else {})


def test_port_of_an_active_unit_is_not_taken(deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/fakes:{os.environ['PATH']}")
    (tmp_path / "fakes").mkdir()
    (tmp_path / "fakes" / "systemctl").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "fakes" / "systemctl").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert deploy(current_configuration_ports={"notebook": address})[1]["taken_ports"] == {}


@pytest.mark.parametrize(("unit", "code"), [("notebook", 2), ("prometheus", 0)])
def test_deploy_stops_only_at_taken_ports_of_enabled_services(
    ansible: Ansible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, code: int
) -> None:
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(ROLES))
    variables = {
        "current_configuration_of_node": {"taken_ports": {unit: "127.0.0.1:8888 is taken by x (process 1 of eve)"}},
        "current_configuration_checked": ["notebook"],
        "current_configuration_option": "--no-jupyter",
    }
    checks = {"ansible.builtin.import_role": {"name": "current_configuration", "tasks_from": "check_ports"}}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [checks]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    result = ansible("ansible-playbook", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml"))
    message = "localhost: 127.0.0.1:8888 is taken by x (process 1 of eve): end that process there, or deploy with"
    assert (result.code, f"{message} `orchestrator deploy --no-jupyter`" in result.text) == (code, code == 2)


def test_each_port_is_checked_by_the_role_that_starts_its_unit() -> None:
    defaults = yaml.safe_load((ROLES / "current_configuration" / "defaults" / "main.yml").read_text())
    ports = {unit: int(address.rpartition(":")[2]) for unit, address in defaults["current_configuration_ports"].items()}
    services = {service.unit: service.port for service in (SERVER, PROMETHEUS, ALERTMANAGER, GRAFANA)}
    exporters = {"node": "prometheus-node-exporter", "orchestrator": "trainer-exporter", "dcgm": "dcgm-exporter"}
    assert ports == services | {exporters[job]: port for job, port in EXPORTERS.items()}
    tasks = [task for path in ROLES.glob("*/tasks/*.yml") for task in yaml.safe_load(path.read_text()) or []]
    checked = [unit for task in tasks for unit in task.get("vars", {}).get("current_configuration_checked", [])]
    assert sorted([*checked, GRAFANA.unit]) == sorted(ports)  # Grafana's: see test_role_grafana.py
