"""Cluster → Prometheus and Alertmanager: their own programs accept the files of the roles."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import cluster as clusters
from orchestrator import packaged_files
from orchestrator.ansible.inventory import targets
from orchestrator.config import Receiver
from orchestrator.monitoring import alert_receivers
from tests import builders
from tests.contract.conftest import ProgramResult
from tests.contract.test_ansible import Ansible, machines, written

INFRA, ROLES = packaged_files.directory("infra") / "prometheus", packaged_files.directory("ansible") / "roles"
ALERTS, METRICS = (packaged_files.PACKAGE.parent / "docs" / f"{name}.md" for name in ("alerts", "metrics"))
PLAYBOOK = """
- hosts: demo-head
  gather_facts: false
  tasks:
    - ansible.builtin.include_vars: {file: "{{ roles }}/prometheus/defaults/main.yml"}
    - ansible.builtin.copy:
        dest: "{{ target }}/targets.json"
        content: "{{ monitoring_targets | to_json(indent=1) }}"
    - ansible.builtin.template:
        src: "{{ roles }}/prometheus/templates/prometheus.yml.j2"
        dest: "{{ target }}/prometheus.yml"
"""
UNIT = """
- hosts: demo-head
  gather_facts: false
  tasks:
    - ansible.builtin.template:
        src: "{{ roles }}/node/templates/trainer-exporter.service.j2"
        dest: "{{ unit }}"
"""

Tool = Callable[..., ProgramResult]


@pytest.fixture
def tool(request: pytest.FixtureRequest) -> Tool:
    """Return a function that runs promtool or amtool, of this machine or the node image, on files of one directory."""

    def run(program: str, *argv: str, below: Path) -> ProgramResult:
        if shutil.which(program):
            finished = subprocess.run([program, *argv], cwd=below, capture_output=True, text=True, check=False)
            return ProgramResult(finished.returncode, finished.stdout + finished.stderr)
        inside = f'cd /given && exec {program} "$@"'
        result: ProgramResult = request.getfixturevalue("in_image")(
            ["/bin/sh", "-c", inside, program, *argv], {below: "/given"}
        )
        return result

    return run


def rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((INFRA / "rules" / f"{name}.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def cases() -> list[dict[str, Any]]:
    files = [yaml.safe_load(path.read_text()) for path in sorted((INFRA / "tests").glob("*.yml"))]
    return [test for file in files for test in file["tests"]]


def test_every_rule_is_valid(tool: Tool) -> None:
    result = tool("promtool", "check", "rules", "rules/recording.yml", "rules/alerts.yml", below=INFRA)
    assert result.code == 0, result.text


def test_every_rule_passes_its_tests(tool: Tool) -> None:
    names = [f"tests/{path.name}" for path in sorted((INFRA / "tests").glob("*.yml"))]
    result = tool("promtool", "test", "rules", *names, below=INFRA)
    assert result.code == 0, result.text
    assert result.text.count("SUCCESS") == len(names) >= 4


@pytest.mark.parametrize("alert", [rule["alert"] for rule in rules("alerts")])
def test_every_alert_has_tests_for_firing_and_not_firing(alert: str) -> None:
    tested = [case for test in cases() for case in test.get("alert_rule_test", []) if case["alertname"] == alert]
    assert {bool(case["exp_alerts"]) for case in tested} == {True, False}


@pytest.mark.parametrize("record", [rule["record"] for rule in rules("recording")])
def test_every_recording_rule_is_tested(record: str) -> None:
    expressions = [case["expr"] for test in cases() for case in test.get("promql_expr_test", []) if case["exp_samples"]]
    assert any(record in expr for expr in expressions)


@pytest.mark.parametrize("rule", rules("alerts"), ids=lambda rule: rule["alert"])
def test_every_alert_names_problem_place_and_remedy(rule: dict[str, Any]) -> None:
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["runbook"] == f"docs/alerts.md#{rule['alert'].lower()}"


def test_documentation_has_one_section_per_alert() -> None:
    sections = re.findall(r"^## (\w+)$", ALERTS.read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules("alerts")]


def test_rules_use_only_metrics_that_exist() -> None:
    text = "".join(path.read_text() for path in (INFRA / "rules").glob("*.yml"))
    names = {re.sub(r"_(sum|count|bucket)$", "", name) for name in re.findall(r"(?<![:\w])orchestrator_\w+(?!:)", text)}
    described = METRICS.read_text()
    assert len(names) >= 5
    assert [name for name in sorted(names) if f"`{name}`" not in described] == []


def test_inhibited_alerts_exist() -> None:
    alerts = {rule["alert"] for rule in rules("alerts")}
    named = {name for cause, effects in alert_receivers.FOLLOWS.items() for name in (cause, *effects.split("|"))}
    assert named <= alerts


@pytest.fixture
def configuration_files(ansible: Ansible, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the prometheus role's files for a cluster's head into a local directory."""

    def write(cluster: clusters.Cluster, **settings: Any) -> Path:
        target, playbook = tmp_path / "configuration_files", tmp_path / "playbook.yml"
        shutil.copytree(INFRA / "rules", target / "rules")
        playbook.write_text(PLAYBOOK)
        inventory = builders.inventory(cluster, monitoring=True, monitoring_state="present", **settings)
        inventory["all"]["vars"] |= {
            "ansible_connection": "local",
            "roles": str(packaged_files.directory("ansible") / "roles"),
            "target": str(target),
        }
        # Paths are relative to the configuration, so any program can resolve them.
        result = ansible(
            "ansible-playbook", "-i", written(tmp_path, inventory), str(playbook), "-e", "prometheus_home=."
        )
        assert result.code == 0, result.text
        return target

    return write


def test_promtool_accepts_configuration_targets_and_rules(tool: Tool, configuration_files: Callable[..., Path]) -> None:
    target = configuration_files(machines(3))
    result = tool("promtool", "check", "config", "prometheus.yml", below=target)
    assert result.code == 0, result.text
    assert f"{len(rules('alerts'))} rules found" in result.text
    assert yaml.safe_load((target / "prometheus.yml").read_text())["global"]["external_labels"] == {"cluster": "demo"}


def test_promtool_accepts_configuration_without_targets(tool: Tool, configuration_files: Callable[..., Path]) -> None:
    target = configuration_files(machines(3))
    (target / "targets.json").write_text("[]\n")
    result = tool("promtool", "check", "config", "prometheus.yml", below=target)
    assert result.code == 0, result.text


def test_only_local_nodes_are_targets_when_prometheus_starts() -> None:
    """The file of machines exists, since Prometheus may read a new one before it has its mode, and not again."""
    tasks = yaml.safe_load((ROLES / "prometheus/tasks/present.yml").read_text())
    local, empty = (task for task in tasks if "targets" in task["name"])
    assert local["ansible.builtin.import_tasks"] == "write_node_addresses.yml"
    assert local["when"] == "'containers' not in group_names"
    written = empty["ansible.builtin.copy"]
    assert (written["content"], written["force"], written["mode"]) == ("[]\n", False, "0644")
    assert empty["when"] == "'containers' in group_names"


def test_dcgm_exporter_reads_gpus_as_often_as_prometheus_reads_it() -> None:
    every = re.search(r"scrape_interval: (\d+)s", (ROLES / "prometheus/templates/prometheus.yml.j2").read_text())
    unit = (ROLES / "dcgm_exporter/tasks/present.yml").read_text()
    assert every
    assert re.findall(r"--collect-interval (\d+)", unit) == [f"{every[1]}000"]


@pytest.mark.parametrize(
    ("settings", "option"),
    [({}, "--interface-of 10.0.0.10"), ({"monitoring_interface": "ib0"}, "--interface ib0")],
)
def test_trainer_exporter_names_the_configured_interface(
    ansible: Ansible, tmp_path: Path, settings: dict[str, Any], option: str
) -> None:
    unit, playbook = tmp_path / "trainer-exporter.service", tmp_path / "playbook.yml"
    playbook.write_text(UNIT)
    inventory = builders.inventory(machines(), **settings)
    variables = {"ansible_connection": "local", "roles": str(ROLES), "unit": str(unit), "node_exporters_nvml": True}
    inventory["all"]["vars"] |= variables
    result = ansible("ansible-playbook", "-i", written(tmp_path, inventory), str(playbook))
    assert result.code == 0, result.text
    assert f"--listen 10.0.0.10:9401 {option} --nvml\n" in unit.read_text()


def test_prometheus_targets_are_those_of_the_cluster(configuration_files: Callable[..., Path]) -> None:
    cluster = machines(3)
    assert yaml.safe_load((configuration_files(cluster) / "targets.json").read_text()) == targets(cluster)


RECEIVERS: list[Sequence[dict[str, Any]]] = [
    [],
    [{"webhook": "https://example.org/alerts"}],
    [
        {"email": "a@example.org", "smarthost": "mail.example.org:587", "tls": False},
        {"webhook": "http://10.0.0.1:8080/x?y=z"},
        {"webhook": "https://hooks.slack.com/services/T0/B0/x"},
    ],
]


@pytest.mark.parametrize("receivers", RECEIVERS)
def test_amtool_accepts_alertmanagers_configuration(
    tool: Tool, tmp_path: Path, receivers: Sequence[dict[str, Any]]
) -> None:
    configuration = alert_receivers.configuration([Receiver(**receiver) for receiver in receivers])
    (tmp_path / "alertmanager.yml").write_text(json.dumps(configuration, indent=2))
    result = tool("amtool", "check-config", "alertmanager.yml", below=tmp_path)
    assert result.code == 0, result.text
    assert "1 receivers" in result.text
