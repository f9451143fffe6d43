"""The inventory of a cluster, and Prometheus' targets."""

import shlex
from pathlib import Path

import pytest

from orchestrator.ansible import inventory
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError
from tests import builders


def test_inventory_has_a_group_for_each_feature() -> None:
    children = builders.inventory(builders.cluster(nodes=3))["all"]["children"]
    members = {group: list(content["hosts"]) for group, content in children.items()}
    assert members == {
        "head": ["demo-head"], "workers": ["demo-worker-0", "demo-worker-1"],
        "gpu": [], "nfs": [], "containers": [], "jupyter": [],
        "monitored": [], "monitoring": [], "unmonitored": [], "dcgm": [], "configured": [], "unconfigured": [],
    }  # fmt: skip


def with_gpus(trainer: str = "container") -> Cluster:
    return builders.cluster(gpus=1).model_copy(update={"trainer": trainer})


def test_monitoring_runs_on_the_head_for_every_node() -> None:
    everything = builders.inventory(builders.cluster(), monitoring=True)["all"]
    members = {group: list(content["hosts"]) for group, content in everything["children"].items()}
    assert (members["monitored"], members["monitoring"]) == (["demo-head", "demo-worker-0"], ["demo-head"])
    with_targets = [name for name, host in everything["hosts"].items() if "monitoring_targets" in host]
    assert with_targets == ["demo-head"]  # targets on a worker would change it as the cluster grows


def test_targets_are_exporters_of_every_node_with_name_and_role() -> None:
    labels = {"cluster": "demo", "node": "demo-worker-0", "role": "worker"}
    targets = inventory.targets(builders.cluster())
    assert [entry for entry in targets if entry["labels"]["role"] == "worker"] == [
        {"targets": ["10.0.0.11:9100"], "labels": {"job": "node", **labels}},
        {"targets": ["10.0.0.11:9401"], "labels": {"job": "orchestrator", **labels}},
    ]
    assert [entry["targets"] for entry in targets if entry["labels"]["role"] == "head"] == [
        ["10.0.0.10:9100"],
        ["10.0.0.10:9401"],
    ]


@pytest.mark.parametrize(
    ("trainer", "driver", "watched"),
    [
        ("container", "cuda-repository", 2),
        ("container", "vgpu", 0),
        ("container", "none", 0),
        ("container", None, 0),
        ("installed", "image", 0),
    ],
)
def test_nvidias_exporter_runs_where_driver_and_trainer_allow(trainer: str, driver: str | None, watched: int) -> None:
    cluster = with_gpus(trainer)
    jobs = [entry["labels"]["job"] for entry in inventory.targets(cluster, driver)]
    assert jobs.count("dcgm") == watched
    children = builders.inventory(cluster, monitoring=True, gpu_driver=driver)["all"]["children"]
    assert len(children["dcgm"]["hosts"]) == watched


def test_nodes_with_gpus_are_in_the_group_gpu() -> None:
    children = builders.inventory(builders.cluster(nodes=2, gpus=1))["all"]["children"]
    assert list(children["gpu"]["hosts"]) == ["demo-head", "demo-worker-0"]


def test_paths_in_the_inventory_are_escaped_for_ssh() -> None:
    cluster, directory = builders.cluster(), Path('/50% "a"')
    keys = builders.host_keys(cluster)
    values = inventory.inventory(cluster, directory / "key", directory / "known", keys, {})["all"]["vars"]
    assert values["ansible_ssh_private_key_file"] == r"/50%% \"a\"/key"
    assert r'UserKnownHostsFile="/50%% \"a\"/known"' in shlex.split(values["ansible_ssh_common_args"])


def test_inventory_pins_and_checks_every_host_key() -> None:
    cluster = builders.cluster()
    everything = inventory.inventory(cluster, Path("k"), Path("known"), builders.host_keys(cluster), {})["all"]
    assert everything["hosts"]["demo-worker-0"] == {
        "ansible_host": "10.0.0.11",
        "ansible_port": 22,
        "private_address": "10.0.0.11",
        "slots": 1,
        "host_key": "ssh-ed25519 AAAAid-1",
    }
    assert "StrictHostKeyChecking=yes" in everything["vars"]["ansible_ssh_common_args"]


@pytest.mark.parametrize("text", ["{{ lookup('pipe', 'id') }}", "/keys/{% set x = 1 %}", "{# #}"])
def test_template_in_a_setting_is_refused(text: str) -> None:
    """Ansible would evaluate it on this machine."""
    with pytest.raises(ConfigError, match=r"all\.vars\.gpu_vgpu_token: .*: holds a template"):
        builders.inventory(builders.cluster(), gpu_vgpu_token=text)


def test_template_in_the_name_of_a_host_is_refused() -> None:
    cluster = builders.cluster()
    head, worker = cluster.nodes.values()
    renamed = cluster.model_copy(update={"nodes": {"{{ lookup('pipe', 'id') }}": head, "demo-worker-0": worker}})
    with pytest.raises(ConfigError, match="holds a template"):
        builders.inventory(renamed)


def test_inventory_without_templates_keeps_braces_of_other_kinds() -> None:
    inventory = builders.inventory(builders.cluster(), gpu_vgpu_installer="/drivers/{a}/%h")
    assert inventory["all"]["vars"]["gpu_vgpu_installer"] == "/drivers/{a}/%h"
