"""The Cluster, and what follows from it."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator.errors import ConfigError, ContractError
from tests import builders


def test_the_head_comes_first_whatever_order_terraform_gives() -> None:
    output = builders.output(nodes=3)
    output["nodes"] = dict(reversed(output["nodes"].items()))
    made = clusters.read(output)
    assert list(made.nodes) == ["demo-head", "demo-worker-0", "demo-worker-1"]
    assert made.head == "demo-head"


def test_workers_are_ordered_by_number_not_by_letter() -> None:
    output = builders.output(nodes=13)
    output["nodes"] = dict(sorted(output["nodes"].items()))  # as JSON from Terraform comes: worker-10 before worker-2
    assert list(clusters.read(output).nodes) == ["demo-head", *(f"demo-worker-{n}" for n in range(12))]


def test_slots_are_those_of_every_node() -> None:
    assert builders.cluster(nodes=3, slots=2).slots == 6


@pytest.mark.parametrize("heads", [0, 2])
def test_a_cluster_without_exactly_one_head_is_refused(heads: int) -> None:
    output = builders.output(nodes=3)
    for number, node in enumerate(output["nodes"].values()):
        node["role"] = "head" if number < heads else "worker"
    with pytest.raises(ContractError, match=f"one head, this one has {heads}"):
        clusters.read(output)


def without(output: dict[str, Any], key: str) -> dict[str, Any]:
    del output["nodes"]["demo-head"][key]
    return output


@pytest.mark.parametrize(
    ("output", "place"),
    [
        (None, "valid dictionary"),
        ({}, "name: Field required"),
        (without(builders.output(), "slots"), "nodes.demo-head.slots: Field required"),
        ({**builders.output(), "extra": 1}, "extra: Extra inputs"),
        ({**builders.output(), "name": 7}, "name: Input should be a valid string"),
    ],
)
def test_an_output_of_another_shape_is_refused_with_the_place(output: Any, place: str) -> None:
    with pytest.raises(ContractError) as caught:
        clusters.read(output)
    assert place in caught.value.message
    assert caught.value.exit_code == 1


def test_numbers_as_text_are_refused() -> None:
    output = builders.output()
    output["nodes"]["demo-head"]["slots"] = "1"
    with pytest.raises(ContractError, match=r"nodes\.demo-head\.slots"):
        clusters.read(output)


def test_a_node_is_reached_at_its_public_address_where_it_has_one() -> None:
    output = builders.output()
    output["nodes"]["demo-head"]["public_address"] = "198.51.100.7"
    made = clusters.read(output)
    assert [node.address for node in made.nodes.values()] == ["198.51.100.7", "10.0.0.11"]


@pytest.mark.parametrize(
    ("given", "name"),
    [("10.0.0.11", "demo-worker-0"), ("demo-head", "demo-head"), ("10.9.9.9", "10.9.9.9"), (None, "None")],
)
def test_a_node_is_named_by_address_or_name(given: str | None, name: str) -> None:
    assert builders.cluster().named(given) == name


def test_the_hostfile_has_the_head_first_and_no_blank_line() -> None:
    assert clusters.hostfile(builders.cluster(nodes=3, slots=2)) == (
        "10.0.0.10 slots=2\n10.0.0.11 slots=2\n10.0.0.12 slots=2\n"
    )


@pytest.mark.parametrize(("np", "hosts"), [(1, 1), (2, 1), (3, 2), (5, 3), (6, 3)])
def test_the_hostfile_has_as_many_hosts_as_the_ranks_need(np: int, hosts: int) -> None:
    assert len(clusters.hostfile(builders.cluster(nodes=3, slots=2), np).splitlines()) == hosts


@pytest.mark.parametrize("np", [0, -1, 7])
def test_more_ranks_than_slots_are_refused_with_the_number_there_is(np: int) -> None:
    with pytest.raises(ConfigError, match=rf"launch\.np: {np} ranks asked for, the cluster has 1 to 6 slots"):
        clusters.hostfile(builders.cluster(nodes=3, slots=2), np)


def test_the_inventory_has_the_groups_that_switch_features() -> None:
    children = builders.inventory(builders.cluster(nodes=3))["all"]["children"]
    members = {group: list(content["hosts"]) for group, content in children.items()}
    assert members == {
        "head": ["demo-head"], "workers": ["demo-worker-0", "demo-worker-1"],
        "gpu": [], "nfs": [], "containers": [], "jupyter": [],
        "monitored": [], "monitoring": [], "dcgm": [], "settled": [], "unsettled": [],
    }  # fmt: skip


def with_gpus(trainer: str = "container") -> clusters.Cluster:
    return builders.cluster(gpus=1).model_copy(update={"trainer": trainer})


def test_a_watched_cluster_has_every_node_monitored_from_the_head() -> None:
    everything = builders.inventory(builders.cluster(), monitoring=True)["all"]
    members = {group: list(content["hosts"]) for group, content in everything["children"].items()}
    assert (members["monitored"], members["monitoring"]) == (["demo-head", "demo-worker-0"], ["demo-head"])
    told = [name for name, host in everything["hosts"].items() if "monitoring_targets" in host]
    assert told == ["demo-head"]  # what a node is told and does not need would unsettle it as the cluster grows


def test_targets_are_the_exporters_of_every_node_with_its_name_and_role() -> None:
    labels = {"cluster": "demo", "node": "demo-worker-0", "role": "worker"}
    targets = clusters.targets(builders.cluster())
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
def test_gpus_are_watched_by_nvidias_exporter_where_it_can(trainer: str, driver: str | None, watched: int) -> None:
    made = with_gpus(trainer)
    jobs = [entry["labels"]["job"] for entry in clusters.targets(made, driver)]
    assert jobs.count("dcgm") == watched
    children = builders.inventory(made, monitoring=True, gpu_driver=driver)["all"]["children"]
    assert len(children["dcgm"]["hosts"]) == watched


def test_nodes_with_gpus_are_in_the_group_gpu() -> None:
    children = builders.inventory(builders.cluster(nodes=2, gpus=1))["all"]["children"]
    assert list(children["gpu"]["hosts"]) == ["demo-head", "demo-worker-0"]


def test_the_inventory_pins_every_host_key_and_checks_it() -> None:
    made = builders.cluster()
    everything = clusters.inventory(made, Path("k"), Path("known"), builders.host_keys(made), {})["all"]
    assert everything["hosts"]["demo-worker-0"] == {
        "ansible_host": "10.0.0.11",
        "ansible_port": 22,
        "private_address": "10.0.0.11",
        "slots": 1,
        "host_key": "ssh-ed25519 AAAAid-1",
    }
    assert "StrictHostKeyChecking=yes" in everything["vars"]["ansible_ssh_common_args"]
