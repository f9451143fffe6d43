"""Config → Terraform: the variables of terraform/local and what the control side writes; what a plan makes of them."""

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import state, terraform
from orchestrator.lifecycle import plan
from orchestrator.providers import local
from tests.contract.conftest import Root
from tests.contract.providers import attributes, declared, planned

GOLDEN = Path(__file__).parent / "golden" / "local.json"
LOCAL = {
    "image": "node:1",
    "subnet": "10.201.7.0/24",
    "mtu": 1500,
    "cpus": 0.5,
    "quota": 2,
    "memory": 1024,
    "head_memory": 2048,
    "grafana": {"image": "", "files": "", "digest": "", "password": ""},
    "cgroup_parent": "/orchestrator/demo",
    "cgroup_volumes": ["/sys/fs/cgroup/systemd:/sys/fs/cgroup/systemd:ro"],
}
VARIABLES = {
    "name": "demo",
    "id": "1a2b3c4d",
    "nodes": 3,
    "slots": None,
    "ssh_public_key": "ssh-ed25519 AAAA orchestrator",
    "allow_from": [],
    "without": [],
    "local": LOCAL,
}


def keys_written_by(function: Callable[..., Any]) -> Iterator[set[str]]:
    """The keys of the dictionaries that a function spells out; a key that is no literal is the provider's name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            yield {str(key.value) if isinstance(key, ast.Constant) else "local" for key in node.keys}


def test_the_control_side_writes_the_variables_that_the_root_declares() -> None:
    assert list(keys_written_by(plan.variables)) == [set(declared("local"))]
    assert set(VARIABLES) == set(declared("local"))


def test_the_provider_writes_the_attributes_that_its_variable_declares() -> None:
    types = attributes("local")
    assert list(keys_written_by(local.variables)) == [set(types)]
    assert types == {
        **dict.fromkeys(("image", "subnet", "cgroup_parent"), "string"),
        **dict.fromkeys(("mtu", "cpus", "quota", "memory", "head_memory"), "number"),
        "cgroup_volumes": "list(string)",
        "grafana": "object",
    }


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": 0}, "A cluster has at least one node."),
        ({"nodes": 1.5}, "A cluster has at least one node."),
        ({"nodes": "many"}, "a number is required"),
        ({"local": {**LOCAL, "subnet": "everywhere"}}, "local.subnet is an IPv4 network"),
        ({"local": {**LOCAL, "subnet": "fd00::/64"}}, "local.subnet is an IPv4 network"),
        ({"without": ["demo-head"]}, "A cluster is never without its head."),
        ({"local": {"image": "node:1"}}, "attributes"),
        ({"local": {**LOCAL, "cpus": 0}}, "A node has more than 0 cpus"),
    ],
)
def test_variables_that_could_not_work_are_refused_at_plan_time(
    root: Callable[[str], Root], changes: dict[str, Any], problem: str
) -> None:
    problems = root("local").problems({**VARIABLES, **changes})
    assert any(problem in message for message in problems), problems


def test_a_plan_gives_the_golden_cluster_and_it_is_read(root: Callable[[str], Root]) -> None:
    output = planned(root("local"), {**VARIABLES, "nodes": 2})
    assert output == json.loads(GOLDEN.read_text())
    cluster = clusters.read(output)
    assert (cluster.name, cluster.head, cluster.slots, cluster.nodes["demo-head"].cpus) == ("demo", "demo-head", 2, 0.5)


def test_addresses_stay_when_the_cluster_grows(root: Callable[[str], Root]) -> None:
    local_root = root("local")
    sizes = ({**VARIABLES, "slots": 2, "nodes": nodes} for nodes in (1, 12))
    small, large = (clusters.read(planned(local_root, variables)) for variables in sizes)
    assert small.nodes["demo-head"] == large.nodes["demo-head"]
    assert list(large.nodes) == ["demo-head", *(f"demo-worker-{number}" for number in range(11))]
    assert large.slots == 24


def test_a_node_left_out_takes_nothing_from_the_others(root: Callable[[str], Root]) -> None:
    local_root = root("local")
    whole, degraded = (
        clusters.read(planned(local_root, {**VARIABLES, "without": names})) for names in ([], ["demo-worker-0"])
    )
    assert list(degraded.nodes) == ["demo-head", "demo-worker-1"]
    assert degraded.nodes["demo-worker-1"] == whole.nodes["demo-worker-1"]


def test_the_root_needs_no_provider_that_must_be_downloaded(root: Callable[[str], Root]) -> None:
    result = root("local").run("providers")
    assert "provider[terraform.io/builtin/terraform]" in result.text
    assert result.text.count("provider[") == result.text.count("provider[terraform.io/builtin/terraform]")


def test_a_plan_of_the_control_side_lists_what_would_change(tmp_path: Path) -> None:
    state_dir = state.StateDir(tmp_path / "demo")
    changes = terraform.plan(state_dir, "local", {**VARIABLES, "nodes": 2}, state.StateDir(tmp_path / "none"))
    actions = {(change.action, change.name) for change in changes}
    assert {("create", "demo-network"), ("create", "demo-shared"), ("create", "demo-worker-0")} <= actions
    assert {change.action for change in changes} == {"create"}
