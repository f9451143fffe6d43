"""terraform/contract: what it refuses at plan time, and what it gives is what the control side reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import packaged_files
from tests.contract import providers
from tests.contract.conftest import Root, Said

GOLDEN = Path(__file__).parent / "golden" / "contract.json"


def node(role: str = "worker", address: str = "10.0.0.5", **changes: Any) -> dict[str, Any]:
    return {"id": address, "role": role, "private_address": address, "cpus": 2, "gpus": 0, **changes}


HEAD = node("head", "10.0.0.4")


def given(nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": "demo", "ssh_user": "ubuntu", "nodes": nodes, **changes}


@pytest.mark.parametrize("name", ["contract", "local"])
def test_every_root_is_valid(root: Callable[[str], Root], name: str) -> None:
    assert root(name).json("validate", "-json")["diagnostics"] == []


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ({"a": HEAD, "b": node("head")}, "A cluster has exactly one head."),
        ({"b": node()}, "A cluster has exactly one head."),
        ({}, "A cluster has exactly one head."),
        ({"a": HEAD, "b": node("boss")}, "A node's role is head or worker."),
        ({"a": HEAD, "b": node(address="fd00::5")}, "A node's private_address is an IPv4 address"),
        ({"a": HEAD, "b": node(address="node-b")}, "A node's private_address is an IPv4 address"),
        ({"a": HEAD, "b": node(address="10.0.0.256")}, "A node's private_address is an IPv4 address"),
        ({"a": HEAD, "b": node(address="10.0.0.4")}, "Two nodes share one private_address."),
        ({"a": HEAD, "b": node(cpus=0)}, "A node has more than 0 cpus"),
        ({"a": HEAD, "b": node(gpus=-1)}, "A node has more than 0 cpus and at least 0 gpus."),
        ({"a": {**HEAD, "port": 0}}, "A node's port is one of 1 to 65535."),
        ({"a": {key: HEAD[key] for key in HEAD if key != "cpus"}}, 'attribute "cpus" is required'),
    ],
)
def test_a_cluster_that_could_not_work_is_refused_at_plan_time(
    root: Callable[[str], Root], nodes: dict[str, Any], problem: str
) -> None:
    problems = root("contract").problems(given(nodes))
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"storage": "floppy"}, "storage is nfs or mounted."),
        ({"trainer": "personal"}, "trainer is container or installed."),
    ],
)
def test_what_the_control_side_would_not_know_is_refused(
    root: Callable[[str], Root], changes: dict[str, str], problem: str
) -> None:
    assert root("contract").problems(given({"a": HEAD}, **changes)) == [problem]


def test_a_cluster_that_works_is_planned(root: Callable[[str], Root]) -> None:
    assert root("contract").problems(given({"a": HEAD, "b": node()})) == []


def output(root: Root, variables: dict[str, Any]) -> Any:
    """The output `cluster` after an apply; the contract has no resources, so nothing is made."""
    root.given(variables)
    result = root.run("apply", "-auto-approve", "-input=false", "-no-color")
    assert result.code == 0, result.text
    return root.json("output", "-json")["cluster"]["value"]


def test_the_output_is_the_golden_one_and_is_read_as_a_cluster(root: Callable[[str], Root]) -> None:
    worker = node(address="10.0.0.5", cpus=0.5, public_address="198.51.100.7")
    values = output(root("contract"), given({"demo-worker-0": worker, "demo-head": HEAD}))
    assert values == json.loads(GOLDEN.read_text())
    cluster = clusters.read(values)
    assert (cluster.head, cluster.ssh_user, cluster.slots) == ("demo-head", "ubuntu", 2)
    assert cluster.nodes["demo-worker-0"].address == "198.51.100.7"


def test_a_cloud_says_what_its_nodes_have_to_be_given(root: Callable[[str], Root]) -> None:
    cloud = given({"a": {**HEAD, "port": 2222}}, storage="nfs", trainer="container")
    cluster = clusters.read(output(root("contract"), cloud))
    assert (cluster.storage, cluster.trainer, cluster.nodes["a"].port) == ("nfs", "container", 2222)


@pytest.mark.parametrize(("gpus", "slots", "expected"), [(0, None, 1), (4, None, 4), (4, 2, 2), (0, 3, 3)])
def test_a_node_has_a_slot_per_gpu_or_one_or_as_many_as_asked_for(
    root: Callable[[str], Root], gpus: int, slots: int | None, expected: int
) -> None:
    values = output(root("contract"), given({"a": {**HEAD, "gpus": gpus}}, slots=slots))
    assert clusters.read(values).slots == expected


@pytest.mark.parametrize("name", providers.roots())
def test_every_provider_has_the_same_variables_and_one_object_of_its_own(name: str) -> None:
    declared = providers.declared(name)
    assert {key: block["type"] for key, block in declared.items() if key != name} == providers.COMMON
    assert providers.attributes(name)
    assert {key for key, block in declared.items() if "default" in block} == {"slots", "allow_from", "without"}
    assert all(len(block["description"].split()) >= 3 for block in declared.values())


@pytest.mark.parametrize("name", providers.roots())
def test_what_every_provider_has_it_declares_as_the_others_do(name: str) -> None:
    """But for the words, and for the networks that it may be told of."""
    alike = providers.COMMON.keys() - {"allow_from"}
    first, this = ({key: providers.declared(root)[key] for key in alike} for root in (providers.roots()[0], name))
    assert [without_words(this[key]) for key in alike] == [without_words(first[key]) for key in alike]


def without_words(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "description"}


@pytest.mark.parametrize("name", providers.roots())
def test_a_root_looks_nothing_up(name: str) -> None:
    """A name may mean another thing at the next deploy, and nodes would be replaced for it."""
    assert providers.blocks(name, "data") == []


@pytest.mark.parametrize("name", providers.roots())
def test_every_provider_has_the_same_files_and_gives_the_one_output(name: str) -> None:
    files = {path.name for path in (packaged_files.directory("terraform") / name).glob("*.tf")}
    assert {"main.tf", "variables.tf", "outputs.tf", "versions.tf"} <= files
    assert [list(block) for block in providers.blocks(name, "output")] == [["cluster"]]
    assert [block["contract"]["source"] for block in providers.blocks(name, "module")] == ["../contract"]


def test_terraform_finds_nothing_to_format(terraform: str) -> None:
    result = Root(terraform, packaged_files.directory("terraform")).run("fmt", "-check", "-recursive")
    assert result == Said(0, "")
