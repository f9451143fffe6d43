"""terraform/contract: validation at plan time, and an output that the control side reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import packaged_files
from tests.contract import providers
from tests.contract.conftest import ProgramResult, Root

GOLDEN = Path(__file__).parent / "golden" / "contract.json"


def node(role: str = "worker", address: str = "10.0.0.5", **changes: Any) -> dict[str, Any]:
    return {"id": address, "role": role, "private_address": address, "cpus": 2, "gpus": 0, **changes}


HEAD = node("head", "10.0.0.4")


def contract_variables(nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": "demo", "ssh_user": "ubuntu", "nodes": nodes, **changes}


@pytest.mark.parametrize("name", ["contract", "local"])
def test_every_root_is_valid(root: Callable[[str], Root], name: str) -> None:
    assert root(name).json("validate", "-json")["diagnostics"] == []


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ({"a": HEAD, "b": node("head")}, "A cluster must have exactly one head."),
        ({"b": node()}, "A cluster must have exactly one head."),
        ({}, "A cluster must have exactly one head."),
        ({"a": HEAD, "b": node("boss")}, "A node's role must be head or worker."),
        ({"a": HEAD, "b": node(address="fd00::5")}, "A node's private_address must be an IPv4 address"),
        ({"a": HEAD, "b": node(address="node-b")}, "A node's private_address must be an IPv4 address"),
        ({"a": HEAD, "b": node(address="10.0.0.256")}, "A node's private_address must be an IPv4 address"),
        ({"a": HEAD, "b": node(address="10.0.0.4")}, "Each node must have its own private_address."),
        ({"a": HEAD, "b": node(cpus=0)}, "A node must have more than 0 cpus"),
        ({"a": HEAD, "b": node(gpus=-1)}, "A node must have more than 0 cpus and at least 0 gpus."),
        ({"a": {**HEAD, "port": 0}}, "A node's port must be between 1 and 65535."),
        ({"a": {key: HEAD[key] for key in HEAD if key != "cpus"}}, 'attribute "cpus" is required'),
    ],
)
def test_impossible_cluster_is_refused_at_plan_time(
    root: Callable[[str], Root], nodes: dict[str, Any], problem: str
) -> None:
    problems = root("contract").problems(contract_variables(nodes))
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"storage": "floppy"}, "storage must be nfs or mounted."),
        ({"trainer": "personal"}, "trainer must be container or installed."),
    ],
)
def test_unknown_storage_or_trainer_is_refused(
    root: Callable[[str], Root], changes: dict[str, str], problem: str
) -> None:
    assert root("contract").problems(contract_variables({"a": HEAD}, **changes)) == [problem]


def test_valid_cluster_is_planned(root: Callable[[str], Root]) -> None:
    assert root("contract").problems(contract_variables({"a": HEAD, "b": node()})) == []


def output(root: Root, variables: dict[str, Any]) -> Any:
    """Return the output `cluster` after an apply, which creates nothing: the contract has no resources."""
    root.write_variables(variables)
    result = root.run("apply", "-auto-approve", "-input=false", "-no-color")
    assert result.code == 0, result.text
    return root.json("output", "-json")["cluster"]["value"]


def test_output_equals_golden_file_and_is_read_as_cluster(root: Callable[[str], Root]) -> None:
    worker = node(address="10.0.0.5", cpus=0.5, public_address="198.51.100.7")
    values = output(root("contract"), contract_variables({"demo-worker-0": worker, "demo-head": HEAD}))
    assert values == json.loads(GOLDEN.read_text())
    cluster = clusters.read(values)
    assert (cluster.head, cluster.ssh_user, cluster.slots) == ("demo-head", "ubuntu", 2)
    assert cluster.nodes["demo-worker-0"].address == "198.51.100.7"


def test_cloud_sets_storage_trainer_and_ssh_port(root: Callable[[str], Root]) -> None:
    cloud = contract_variables({"a": {**HEAD, "port": 2222}}, storage="nfs", trainer="container")
    cluster = clusters.read(output(root("contract"), cloud))
    assert (cluster.storage, cluster.trainer, cluster.nodes["a"].port) == ("nfs", "container", 2222)


@pytest.mark.parametrize(("gpus", "slots", "expected"), [(0, None, 1), (4, None, 4), (4, 2, 2), (0, 3, 3)])
def test_slots_are_requested_or_one_per_gpu_or_one(
    root: Callable[[str], Root], gpus: int, slots: int | None, expected: int
) -> None:
    values = output(root("contract"), contract_variables({"a": {**HEAD, "gpus": gpus}}, slots=slots))
    assert clusters.read(values).slots == expected


@pytest.mark.parametrize("name", providers.roots())
def test_every_provider_has_common_variables_and_one_object(name: str) -> None:
    declared = providers.declared(name)
    assert {key: block["type"] for key, block in declared.items() if key != name} == providers.COMMON
    assert providers.attributes(name)
    assert {key for key, block in declared.items() if "default" in block} == {"slots", "allow_from", "without"}
    assert all(len(block["description"].split()) >= 3 for block in declared.values())


@pytest.mark.parametrize("name", providers.roots())
def test_common_variables_have_the_same_declaration(name: str) -> None:
    """Except descriptions, and the default of `allow_from`."""
    alike = providers.COMMON.keys() - {"allow_from"}
    first, this = ({key: providers.declared(root)[key] for key in alike} for root in (providers.roots()[0], name))
    assert [without_words(this[key]) for key in alike] == [without_words(first[key]) for key in alike]


def without_words(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "description"}


@pytest.mark.parametrize("name", providers.roots())
def test_root_has_no_data_sources(name: str) -> None:
    """A name may refer to another object at the next deploy, which would replace nodes."""
    assert providers.blocks(name, "data") == []


@pytest.mark.parametrize("name", providers.roots())
def test_every_provider_has_the_same_files_and_output(name: str) -> None:
    files = {path.name for path in (packaged_files.directory("terraform") / name).glob("*.tf")}
    assert {"main.tf", "variables.tf", "outputs.tf", "versions.tf"} <= files
    assert [list(block) for block in providers.blocks(name, "output")] == [["cluster"]]
    assert [block["contract"]["source"] for block in providers.blocks(name, "module")] == ["../contract"]


def test_terraform_files_are_formatted(terraform: str) -> None:
    result = Root(terraform, packaged_files.directory("terraform")).run("fmt", "-check", "-recursive")
    assert result == ProgramResult(0, "")
