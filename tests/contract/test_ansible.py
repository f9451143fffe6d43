"""Cluster → Ansible, by Ansible's own programs: what they read is what the Cluster says."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import packaged_files
from orchestrator.cluster import Cluster
from tests import builders
from tests.contract.conftest import Said

Ansible = Callable[..., Said]
LISTED = re.compile(r"\): (.*?)\tTAGS.*\n.*\n    hosts \((\d+)\)")  # of `ansible-playbook --list-hosts`


def written(directory: Path, inventory: dict[str, Any]) -> str:
    path = directory / "inventory.json"
    path.write_text(json.dumps(inventory))
    return str(path)


@pytest.fixture
def cluster() -> Cluster:
    return builders.cluster(nodes=12, slots=2)


def test_ansible_reads_the_cluster_that_the_inventory_was_made_of(
    ansible: Ansible, cluster: Cluster, tmp_path: Path
) -> None:
    result = ansible("ansible-inventory", "-i", written(tmp_path, builders.inventory(cluster)), "--list")
    read = json.loads(result.text)
    assert read["head"]["hosts"] == ["demo-head"]
    assert read["workers"]["hosts"] == [name for name in cluster.nodes if name != "demo-head"]
    assert set(read["all"]["children"]) >= {"head", "workers"}
    assert set(read["_meta"]["hostvars"]) == set(cluster.nodes)


def test_every_host_has_its_own_variables_and_the_common_ones(
    ansible: Ansible, cluster: Cluster, tmp_path: Path
) -> None:
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


def test_the_group_gpu_is_the_switch_for_nodes_with_gpus(ansible: Ansible, tmp_path: Path) -> None:
    for gpus, members in ((0, None), (1, ["demo-head", "demo-worker-0"])):
        inventory = builders.inventory(builders.cluster(gpus=gpus))
        read = json.loads(ansible("ansible-inventory", "-i", written(tmp_path, inventory), "--list").text)
        assert read.get("gpu", {}).get("hosts") == members


def machines(nodes: int = 2) -> Cluster:
    """A cluster of machines that share a directory by NFS and run the trainer in a container."""
    return builders.cluster(nodes).model_copy(update={"storage": "nfs", "trainer": "container"})


@pytest.mark.parametrize("playbook", ["site.yml", "validate.yml", "remove.yml"])
def test_every_playbook_is_well_formed(ansible: Ansible, cluster: Cluster, tmp_path: Path, playbook: str) -> None:
    inventory = written(tmp_path, builders.inventory(cluster))
    result = ansible("ansible-playbook", "--syntax-check", "-i", inventory, playbook)
    assert (result.code, f"playbook: {playbook}" in result.text) == (0, True)


def test_an_inventory_of_a_cluster_is_valid(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    result = ansible("ansible-playbook", "-i", written(tmp_path, builders.inventory(cluster)), "validate.yml")
    assert result.code == 0, result.text


def test_the_head_may_have_any_name(ansible: Ansible, tmp_path: Path) -> None:
    inventory = json.loads(json.dumps(builders.inventory(builders.cluster())).replace("demo-head", "zebra"))
    result = ansible("ansible-playbook", "-i", written(tmp_path, inventory), "validate.yml")
    assert result.code == 0, result.text


def test_an_inventory_of_machines_is_valid(ansible: Ansible, tmp_path: Path) -> None:
    result = ansible("ansible-playbook", "-i", written(tmp_path, builders.inventory(machines())), "validate.yml")
    assert result.code == 0, result.text


def test_what_is_for_machines_touches_no_node_that_comes_ready(
    ansible: Ansible, cluster: Cluster, tmp_path: Path
) -> None:
    result = ansible(
        "ansible-playbook", "--list-hosts", "-i", written(tmp_path, builders.inventory(cluster)), "site.yml"
    )
    touched = {play: int(hosts) for play, hosts in LISTED.findall(result.text) if int(hosts)}
    nodes = len(cluster.nodes)
    on_every_node = ("Look at the nodes", "Configure every node")
    assert touched == {"Validate the inventory": 1, **dict.fromkeys(on_every_node, nodes)}


def test_every_node_is_watched_from_the_head(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    inventory = written(tmp_path, builders.inventory(cluster, monitoring=True))
    result = ansible("ansible-playbook", "--list-hosts", "-i", inventory, "site.yml")
    touched = {play: int(hosts) for play, hosts in LISTED.findall(result.text)}
    assert touched["Watch every machine"] == 0  # local nodes come with the exporters
    assert touched["Keep and show what is watched"] == 1
    assert (touched["Watch the GPUs"], touched["Watch no node any more"]) == (0, 0)
    assert ansible("ansible-playbook", "-i", inventory, "validate.yml").code == 0


def test_ansible_does_not_miss_a_group(ansible: Ansible, cluster: Cluster, tmp_path: Path) -> None:
    result = ansible(
        "ansible-playbook", "--list-hosts", "-i", written(tmp_path, builders.inventory(cluster)), "site.yml"
    )
    assert "Could not match supplied host pattern" not in result.text


def test_the_shared_directory_is_never_exported_with_the_power_of_root() -> None:
    written = [path.read_text() for path in (packaged_files.directory("ansible") / "roles" / "nfs").rglob("*.yml")]
    assert any("(rw,sync,root_squash," in text for text in written)
    assert not any("no_root_squash" in text for text in written)


def two_heads(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["head"]["hosts"]["demo-worker-0"] = {}


def a_stranger(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["someone"] = dict(inventory["all"]["hosts"]["demo-head"])


def no_slots(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["slots"] = 0


def ipv6(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["private_address"] = "fd00::5"


def no_host_key(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["host_key"] = ""


def one_address_for_two(inventory: dict[str, Any]) -> None:
    inventory["all"]["hosts"]["demo-worker-0"]["private_address"] = "10.0.0.10"


def half_shared(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["nfs"]["hosts"]["demo-head"] = {}


def half_contained(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["containers"]["hosts"]["demo-head"] = {}


def a_notebook_on_a_worker(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["jupyter"]["hosts"]["demo-worker-0"] = {}


def half_watched(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["monitored"]["hosts"]["demo-head"] = {}


def watched_by_nobody(inventory: dict[str, Any]) -> None:
    inventory["all"]["children"]["monitored"]["hosts"] = {"demo-head": {}, "demo-worker-0": {}}


SPOILERS = [
    *(two_heads, a_stranger, no_slots, ipv6, no_host_key),
    *(one_address_for_two, half_shared, half_contained, a_notebook_on_a_worker),
    *(half_watched, watched_by_nobody),
]


@pytest.mark.parametrize("spoil", SPOILERS)
def test_an_inventory_of_no_cluster_is_refused_before_a_host_is_touched(
    ansible: Ansible, tmp_path: Path, spoil: Callable[[dict[str, Any]], None]
) -> None:
    inventory = builders.inventory(builders.cluster())
    spoil(inventory)
    result = ansible("ansible-playbook", "-i", written(tmp_path, inventory), "site.yml")
    assert result.code == 2
    assert "The inventory is not one of a cluster" in result.text
    assert "Configure every node" not in result.text
