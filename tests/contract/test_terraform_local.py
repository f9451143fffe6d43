"""Config → Terraform: the variables of terraform/local and what the control side writes; what a plan makes of them."""

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hcl2
import pytest

from orchestrator import assets, lifecycle
from orchestrator import cluster as clusters
from orchestrator.providers import local
from tests.contract.conftest import Root

GOLDEN = Path(__file__).parent / "golden" / "local.json"
LOCAL = {"image": "node:1", "subnet": "10.201.7.0/24", "mtu": 1500, "cpus": 0.5, "memory": 1024}
VARIABLES = {
    "name": "demo",
    "id": "1a2b3c4d",
    "nodes": 3,
    "slots": None,
    "ssh_public_key": "ssh-ed25519 AAAA orchestrator",
    "local": LOCAL,
}


def declared() -> dict[str, dict[str, Any]]:
    """The variable blocks of terraform/local."""
    with (assets.directory("terraform") / "local" / "variables.tf").open() as file:
        blocks = hcl2.load(file)["variable"]
    return {name.strip('"'): block for found in blocks for name, block in found.items()}


def keys_written_by(function: Callable[..., Any]) -> Iterator[set[str]]:
    """The keys of the dictionaries that a function spells out; a key that is no literal is the provider's name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            yield {str(key.value) if isinstance(key, ast.Constant) else "local" for key in node.keys}


def test_the_control_side_writes_the_variables_that_the_root_declares() -> None:
    assert list(keys_written_by(lifecycle._variables)) == [set(declared())]
    assert set(VARIABLES) == set(declared())


def test_the_provider_writes_the_attributes_that_its_variable_declares() -> None:
    shape = declared()["local"]["type"].removeprefix("${object({").removesuffix("})}")
    types = dict(attribute.split(" = ") for attribute in shape.split(", "))
    assert list(keys_written_by(local.variables)) == [set(types)]
    assert types == {"image": "string", "subnet": "string", "mtu": "number", "cpus": "number", "memory": "number"}


@pytest.mark.parametrize(
    ("name", "kind"), [("name", "string"), ("id", "string"), ("nodes", "number"), ("slots", "number")]
)
def test_the_common_variables_have_their_types_and_say_what_they_mean(name: str, kind: str) -> None:
    assert declared()[name]["type"] == kind
    assert all(len(block["description"].split()) >= 3 for block in declared().values())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": 0}, "A cluster has at least one node."),
        ({"nodes": 1.5}, "A cluster has at least one node."),
        ({"nodes": "many"}, "a number is required"),
        ({"local": {**LOCAL, "subnet": "everywhere"}}, "local.subnet is an IPv4 network"),
        ({"local": {**LOCAL, "subnet": "fd00::/64"}}, "local.subnet is an IPv4 network"),
        ({"local": {"image": "node:1"}}, "attributes"),
        ({"local": {**LOCAL, "cpus": 0}}, "A node has more than 0 cpus"),
    ],
)
def test_variables_that_could_not_work_are_refused_at_plan_time(
    root: Callable[[str], Root], changes: dict[str, Any], problem: str
) -> None:
    problems = root("local").problems({**VARIABLES, **changes})
    assert any(problem in found for found in problems), problems


def planned(root: Root, **changes: Any) -> Any:
    """The output `cluster` as a plan knows it, with what only an apply would know filled in."""
    root.given({**VARIABLES, **changes})
    said = root.run("plan", "-input=false", "-out=plan")
    assert said.code == 0, said.text
    output = root.json("show", "-json", "plan")["output_changes"]["cluster"]
    unknown = {name for name, attributes in output["after_unknown"]["nodes"].items() if attributes == {"id": True}}
    assert unknown == set(output["after"]["nodes"])
    for name in unknown:
        output["after"]["nodes"][name]["id"] = f"id-of-{name}"
    return output["after"]


def test_a_plan_gives_the_golden_cluster_and_it_is_read(root: Callable[[str], Root]) -> None:
    output = planned(root("local"), nodes=2)
    assert output == json.loads(GOLDEN.read_text())
    made = clusters.read(output)
    assert (made.name, made.head, made.slots, made.nodes["demo-head"].cpus) == ("demo", "demo-head", 2, 0.5)


def test_addresses_stay_when_the_cluster_grows(root: Callable[[str], Root]) -> None:
    local_root = root("local")
    small, large = (clusters.read(planned(local_root, nodes=nodes, slots=2)) for nodes in (1, 12))
    assert small.nodes["demo-head"] == large.nodes["demo-head"]
    assert list(large.nodes) == ["demo-head", *(f"demo-worker-{number}" for number in range(11))]
    assert large.slots == 24


def test_the_root_needs_no_provider_that_must_be_downloaded(root: Callable[[str], Root]) -> None:
    said = root("local").run("providers")
    assert "provider[terraform.io/builtin/terraform]" in said.text
    assert said.text.count("provider[") == said.text.count("provider[terraform.io/builtin/terraform]")
