"""Cluster → Ansible: Ansible's own programs read the inventory as the Cluster describes it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import packaged_files
from orchestrator.cluster import Cluster
from tests import builders
from tests.contract.conftest import ProgramResult

Ansible = Callable[..., ProgramResult]
LISTED = re.compile(r"\): (.*?)\tTAGS.*\n.*\n    hosts \((\d+)\)")  # of `ansible-playbook --list-hosts`


def written(directory: Path, inventory: dict[str, Any]) -> str:
    path = directory / "inventory.json"
    path.write_text(json.dumps(inventory))
    return str(path)


@pytest.fixture
def cluster() -> Cluster:
    return builders.cluster(nodes=12, slots=2)


def test_ansible_reads_the_same_groups_and_hosts_as_the_cluster(
    ansible: Ansible, cluster: Cluster, tmp_path: Path
) -> None:
    result = ansible("ansible-inventory", "-i", written(tmp_path, builders.inventory(cluster)), "--list")
    read = json.loads(result.text)
    assert read["head"]["hosts"] == ["demo-head"]
    assert read["workers"]["hosts"] == [name for name in cluster.nodes if name != "demo-head"]
    assert set(read["all"]["children"]) >= {"head", "workers"}
    assert set(read["_meta"]["hostvars"]) == set(cluster.nodes)


def test_hosts_have_their_own_and_the_common_variables(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    result = ansible(
        "ansible-inventory", "-i", written(tmp_path, builders.inventory(cluster)), "--host", "demo-worker-3"
    )
    variables = json.loads(result.text)
    assert {key: variables[key] for key in ("ansible_host", "private_address", "slots", "host_key")} == {
        "ansible_host": "10.0.0.14",
        "private_address": "10.0.0.14",
        "slots": 2,
        "host_key": "ssh-ed25519 AAAAid-4",
    }
    assert (variables["ansible_user"], variables["cluster_name"]) == ("orchestrator", "demo")


def test_group_gpu_selects_nodes_with_gpus(ansible: Ansible, tmp_path: Path) -> None:
    for gpus, members in ((0, None), (1, ["demo-head", "demo-worker-0"])):
        inventory = builders.inventory(builders.cluster(gpus=gpus))
        read = json.loads(ansible("ansible-inventory", "-i", written(tmp_path, inventory), "--list").text)
        assert read.get("gpu", {}).get("hosts") == members


def machines(nodes: int = 2) -> Cluster:
    """Return a cluster of machines that share a directory by NFS and run the trainer in a container."""
    return builders.cluster(nodes).model_copy(update={"storage": "nfs", "trainer": "container"})


@pytest.mark.parametrize("playbook", ["site.yml", "validate.yml", "remove.yml"])
def test_every_playbook_passes_the_syntax_check(
    ansible: Ansible, cluster: Cluster, tmp_path: Path, playbook: str
) -> None:
    inventory = written(tmp_path, builders.inventory(cluster))
    result = ansible("ansible-playbook", "--syntax-check", "-i", inventory, playbook)
    assert (result.code, f"playbook: {playbook}" in result.text) == (0, True)


def test_inventory_of_a_local_cluster_is_valid(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    result = ansible("ansible-playbook", "-i", written(tmp_path, builders.inventory(cluster)), "validate.yml")
    assert result.code == 0, result.text


def test_head_may_have_any_name(ansible: Ansible, tmp_path: Path) -> None:
    inventory = json.loads(json.dumps(builders.inventory(builders.cluster())).replace("demo-head", "zebra"))
    result = ansible("ansible-playbook", "-i", written(tmp_path, inventory), "validate.yml")
    assert result.code == 0, result.text


def test_inventory_of_machines_is_valid(ansible: Ansible, tmp_path: Path) -> None:
    result = ansible("ansible-playbook", "-i", written(tmp_path, builders.inventory(machines())), "validate.yml")
    assert result.code == 0, result.text


def test_roles_for_machines_touch_no_prepared_node(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    result = ansible(
        "ansible-playbook", "--list-hosts", "-i", written(tmp_path, builders.inventory(cluster)), "site.yml"
    )
    touched = {play: int(hosts) for play, hosts in LISTED.findall(result.text) if int(hosts)}
    nodes = len(cluster.nodes)
    on_every_node = ("Read the current configuration of the nodes", "Configure every node")
    assert touched == {"Validate the inventory": 1, **dict.fromkeys(on_every_node, nodes)}


def test_every_node_is_monitored_from_the_head(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    inventory = written(tmp_path, builders.inventory(cluster, monitoring=True))
    result = ansible("ansible-playbook", "--list-hosts", "-i", inventory, "site.yml")
    touched = {play: int(hosts) for play, hosts in LISTED.findall(result.text)}
    assert touched["Install the exporters on machines"] == 0  # local nodes have the exporters in their image
    assert touched["Configure Prometheus and Grafana"] == 1
    assert (touched["Configure dcgm-exporter"], touched["Remove the exporters"]) == (0, 0)
    assert touched["Add the machines to the targets of Prometheus"] == 0  # they are targets since Prometheus began
    assert ansible("ansible-playbook", "-i", inventory, "validate.yml").code == 0


def test_machines_become_targets_once_they_have_exporters(ansible: Ansible, tmp_path: Path) -> None:
    inventory = written(tmp_path, builders.inventory(machines(), monitoring=True))
    result = ansible("ansible-playbook", "--list-hosts", "-i", inventory, "site.yml")
    assert LISTED.findall(result.text)[-5:] == [
        ("Remove the exporters", "0"),
        ("Remove dcgm-exporter", "2"),
        ("Configure dcgm-exporter", "0"),
        ("Add the machines to the targets of Prometheus", "1"),
        ("Record the configuration of the nodes", "0"),
    ]


@pytest.mark.parametrize(("driver", "removes"), [("image", []), ("none", ["demo-head", "demo-worker-0"])])
@pytest.mark.parametrize("state", ["present", "absent"])
def test_nvidias_exporter_is_removed_if_no_driver_is_used(
    ansible: Ansible, tmp_path: Path, state: str, driver: str, removes: list[str]
) -> None:
    """Also if the same deploy ends the monitoring. Where the exporter stays in its group, its role removes it."""
    cluster = machines().model_copy(update={"nodes": builders.cluster(gpus=1).nodes})
    settings = {"monitoring": True, "monitoring_state": state, "gpu_driver": driver}
    inventory = written(tmp_path, builders.inventory(cluster, **settings))
    result = ansible("ansible-playbook", "--list-hosts", "-i", inventory, "site.yml")
    play = result.text.partition("): Remove dcgm-exporter\t")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^ {6}(\S+)$", play, re.MULTILINE)) == removes


def test_ansible_warns_about_no_missing_group(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    result = ansible(
        "ansible-playbook", "--list-hosts", "-i", written(tmp_path, builders.inventory(cluster)), "site.yml"
    )
    assert "Could not match supplied host pattern" not in result.text


def test_nfs_exports_always_squash_root() -> None:
    written = [path.read_text() for path in (packaged_files.directory("ansible") / "roles" / "nfs").rglob("*.yml")]
    assert any("(rw,sync,root_squash," in text for text in written)
    assert not any("no_root_squash" in text for text in written)


def two_heads(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["head"]["hosts"]["demo-worker-0"] = {}


def host_without_group(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["unlisted"] = dict(inventory["all"]["hosts"]["demo-head"])


def zero_slots(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["slots"] = 0


def ipv6_address(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["private_address"] = "fd00::5"


def no_host_key(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["host_key"] = ""


def duplicate_address(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["private_address"] = "10.0.0.10"


def nfs_on_one_node(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["nfs"]["hosts"]["demo-head"] = {}


def container_on_one_node(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["containers"]["hosts"]["demo-head"] = {}


def jupyter_on_worker(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["jupyter"]["hosts"]["demo-worker-0"] = {}


def monitored_on_one_node(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["monitored"]["hosts"]["demo-head"] = {}


def monitored_without_monitoring_host(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["monitored"]["hosts"] = {"demo-head": {}, "demo-worker-0": {}}


DAMAGES = [
    *(two_heads, host_without_group, zero_slots, ipv6_address, no_host_key),
    *(duplicate_address, nfs_on_one_node, container_on_one_node, jupyter_on_worker),
    *(monitored_on_one_node, monitored_without_monitoring_host),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_invalid_inventory_is_refused_before_touching_hosts(
    ansible: Ansible, tmp_path: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    inventory = builders.inventory(builders.cluster())
    damage(inventory)
    result = ansible("ansible-playbook", "-i", written(tmp_path, inventory), "site.yml")
    assert result.code == 2
    assert "The inventory does not describe a cluster" in result.text
    assert "Configure every node" not in result.text
