"""Config → Terraform: terraform/local's variables, the control side's values, and their plan."""

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
    "engine": {"id": "d0cc3r", "machine": "lab1"},
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
    """Yield the keys of dictionary literals in a function; a key that is no literal is the provider's name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            yield {str(key.value) if isinstance(key, ast.Constant) else "local" for key in node.keys}


def test_control_side_writes_the_declared_variables() -> None:
    assert list(keys_written_by(plan.variables)) == [set(declared("local"))]
    assert set(VARIABLES) == set(declared("local"))


def test_provider_writes_the_declared_attributes() -> None:
    types = attributes("local")
    assert list(keys_written_by(local.variables)) == [set(types)]
    assert types == {
        **dict.fromkeys(("image", "subnet", "cgroup_parent"), "string"),
        **dict.fromkeys(("mtu", "cpus", "quota", "memory", "head_memory"), "number"),
        "cgroup_volumes": "list(string)",
        "engine": "map(string)",
        "grafana": "object",
    }


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": 0}, "nodes must be an integer of at least 1."),
        ({"nodes": 1.5}, "nodes must be an integer of at least 1."),
        ({"nodes": "many"}, "a number is required"),
        ({"local": {**LOCAL, "subnet": "everywhere"}}, "local.subnet must be an IPv4 network"),
        ({"local": {**LOCAL, "subnet": "fd00::/64"}}, "local.subnet must be an IPv4 network"),
        ({"without": ["demo-head"]}, "without must not contain the head."),
        ({"local": {"image": "node:1"}}, "attributes"),
        ({"local": {**LOCAL, "cpus": 0}}, "A node must have more than 0 cpus"),
    ],
)
def test_impossible_variables_are_refused_at_plan_time(
    root: Callable[[str], Root], changes: dict[str, Any], problem: str
) -> None:
    problems = root("local").problems({**VARIABLES, **changes})
    assert any(problem in message for message in problems), problems


def test_plan_gives_the_golden_cluster(root: Callable[[str], Root]) -> None:
    output = planned(root("local"), {**VARIABLES, "nodes": 2})
    assert output == json.loads(GOLDEN.read_text())
    cluster = clusters.read(output)
    assert (cluster.name, cluster.head, cluster.slots, cluster.nodes["demo-head"].cpus) == ("demo", "demo-head", 2, 0.5)


def test_addresses_stay_if_the_cluster_grows(root: Callable[[str], Root]) -> None:
    local_root = root("local")
    sizes = ({**VARIABLES, "slots": 2, "nodes": nodes} for nodes in (1, 12))
    small, large = (clusters.read(planned(local_root, variables)) for variables in sizes)
    assert small.nodes["demo-head"] == large.nodes["demo-head"]
    assert list(large.nodes) == ["demo-head", *(f"demo-worker-{number}" for number in range(11))]
    assert large.slots == 24


def test_left_out_node_changes_no_other_node(root: Callable[[str], Root]) -> None:
    local_root = root("local")
    whole, degraded = (
        clusters.read(planned(local_root, {**VARIABLES, "without": names})) for names in ([], ["demo-worker-0"])
    )
    assert list(degraded.nodes) == ["demo-head", "demo-worker-1"]
    assert degraded.nodes["demo-worker-1"] == whole.nodes["demo-worker-1"]


def test_root_needs_no_downloaded_provider(root: Callable[[str], Root]) -> None:
    result = root("local").run("providers")
    assert "provider[terraform.io/builtin/terraform]" in result.text
    assert result.text.count("provider[") == result.text.count("provider[terraform.io/builtin/terraform]")


def test_plan_of_the_control_side_lists_changes(tmp_path: Path) -> None:
    state_dir = state.StateDir(tmp_path / "demo")
    changes = terraform.plan(state_dir, "local", {**VARIABLES, "nodes": 2}, state.StateDir(tmp_path / "none"))
    actions = {(change.action, change.name) for change in changes}
    assert {("create", "demo-network"), ("create", "demo-shared"), ("create", "demo-worker-0")} <= actions
    assert {change.action for change in changes} == {"create"}
