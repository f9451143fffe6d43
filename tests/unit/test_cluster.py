"""The Cluster and its derived values."""

from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator.errors import ConfigError, ContractError
from orchestrator.runs import run_record
from orchestrator.runs.launchers import hostfile
from tests import builders


def test_head_comes_first_in_any_order_of_terraform() -> None:
    output = builders.output(nodes=3)
    output["nodes"] = dict(reversed(output["nodes"].items()))
    cluster = clusters.read(output)
    assert list(cluster.nodes) == ["demo-head", "demo-worker-0", "demo-worker-1"]
    assert cluster.head == "demo-head"


def test_workers_are_ordered_by_number_not_by_letter() -> None:
    output = builders.output(nodes=13)
    output["nodes"] = dict(sorted(output["nodes"].items()))  # JSON of Terraform has worker-10 before worker-2
    assert list(clusters.read(output).nodes) == ["demo-head", *(f"demo-worker-{n}" for n in range(12))]


def test_slots_are_the_sum_over_nodes() -> None:
    assert builders.cluster(nodes=3, slots=2).slots == 6


@pytest.mark.parametrize("heads", [0, 2])
def test_cluster_without_exactly_one_head_is_refused(heads: int) -> None:
    output = builders.output(nodes=3)
    for number, node in enumerate(output["nodes"].values()):
        node["role"] = "head" if number < heads else "worker"
    with pytest.raises(ContractError, match=f"one head, this one has {heads}"):
        clusters.read(output)


def without(output: dict[str, Any], key: str) -> dict[str, Any]:
    del output["nodes"]["demo-head"][key]
    return output


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (None, "valid dictionary"),
        ({}, "name: Field required"),
        (without(builders.output(), "slots"), "nodes.demo-head.slots: Field required"),
        ({**builders.output(), "extra": 1}, "extra: Extra inputs"),
        ({**builders.output(), "name": 7}, "name: Input should be a valid string"),
    ],
)
def test_output_of_another_shape_is_refused_with_the_place(output: Any, problem: str) -> None:
    with pytest.raises(ContractError) as caught:
        clusters.read(output)
    assert problem in caught.value.message
    assert caught.value.exit_code == 1


def test_numbers_as_text_are_refused() -> None:
    output = builders.output()
    output["nodes"]["demo-head"]["slots"] = "1"
    with pytest.raises(ContractError, match=r"nodes\.demo-head\.slots"):
        clusters.read(output)


def test_public_address_of_a_node_is_preferred() -> None:
    output = builders.output()
    output["nodes"]["demo-head"]["public_address"] = "198.51.100.7"
    cluster = clusters.read(output)
    assert [node.address for node in cluster.nodes.values()] == ["198.51.100.7", "10.0.0.11"]


@pytest.mark.parametrize(
    ("address", "name"),
    [("10.0.0.11", "demo-worker-0"), ("demo-head", "demo-head"), ("10.9.9.9", "10.9.9.9"), (None, "None")],
)
def test_node_is_named_by_address_or_name(address: str | None, name: str) -> None:
    assert builders.cluster().named(address) == name


def test_hostfile_has_the_head_first_and_no_blank_line() -> None:
    assert hostfile.text(builders.cluster(nodes=3, slots=2)) == (
        "10.0.0.10 slots=2\n10.0.0.11 slots=2\n10.0.0.12 slots=2\n"
    )


@pytest.mark.parametrize(("np", "hosts"), [(1, 1), (2, 1), (3, 2), (5, 3), (6, 3)])
def test_hostfile_has_as_many_hosts_as_the_ranks_need(np: int, hosts: int) -> None:
    assert len(hostfile.text(builders.cluster(nodes=3, slots=2), np).splitlines()) == hosts


@pytest.mark.parametrize("np", [0, -1, 7])
def test_more_ranks_than_slots_are_refused_with_the_limit(np: int) -> None:
    with pytest.raises(ConfigError, match=rf"launch\.np: {np} ranks asked for, the cluster has 1 to 6 slots"):
        hostfile.text(builders.cluster(nodes=3, slots=2), np)


def mixed(slots: int = 1, gpus: int = 2) -> clusters.Cluster:
    """Return a head without GPUs and two workers with some."""
    output = builders.output(nodes=3, slots=slots)
    for node in output["nodes"].values():
        node["gpus"] = 0 if node["role"] == "head" else gpus
    return clusters.read(output)


def test_node_without_gpus_has_no_ranks_if_others_have_gpus() -> None:
    cluster = mixed(slots=2)
    assert (list(cluster.rank_nodes), cluster.slots) == (["demo-worker-0", "demo-worker-1"], 4)
    assert clusters.hosts(cluster, 3) == ["demo-worker-0", "demo-worker-1"]
    assert hostfile.text(cluster).splitlines() == [
        f"{cluster.nodes[name].private_address} slots=2" for name in ("demo-worker-0", "demo-worker-1")
    ]
    assert run_record.threads(cluster) == max(1, int(cluster.nodes["demo-worker-0"].cpus / 2))


def test_ranks_that_would_share_a_gpu_are_refused() -> None:
    with pytest.raises(ConfigError, match="slots: 3: demo-worker-0 has 2 GPUs") as caught:
        clusters.require_a_gpu_each(mixed(slots=3))
    assert "a GPU of its own" in caught.value.hint
    clusters.require_a_gpu_each(mixed(slots=2))
    clusters.require_a_gpu_each(builders.cluster(slots=3))


def test_cluster_without_its_gpus_computes_on_cpus() -> None:
    remaining = mixed().without(["demo-worker-0", "demo-worker-1"])
    assert (clusters.hosts(remaining), remaining.slots) == (["demo-head"], 1)


@pytest.mark.parametrize("key", ["private_address", "public_address"])
@pytest.mark.parametrize(
    "address", ['{{lookup("pipe","id")}}', "{%set x=1%}", "-oProxyCommand=id", "a b", "10.0.0.1;id", "$(id)", "", "a\n"]
)
def test_invalid_address_is_refused(key: str, address: str) -> None:
    output = builders.output()
    output["nodes"]["demo-worker-0"][key] = address
    with pytest.raises(ContractError, match=key):
        clusters.read(output)


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "fe80::1%eth0", "node1.example.org", "node_1"])
def test_every_kind_of_address_is_accepted(address: str) -> None:
    output = builders.output()
    output["nodes"]["demo-worker-0"]["private_address"] = address
    assert clusters.read(output).nodes["demo-worker-0"].address == address
