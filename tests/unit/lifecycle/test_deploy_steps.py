"""A deploy with min_nodes, which continues with fewer nodes than requested."""

from collections.abc import Callable

import pytest

from orchestrator import cluster as clusters
from orchestrator import state, terraform
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, NodesFailed
from orchestrator.lifecycle.deploy_steps import NodeSteps
from orchestrator.providers import provisioning
from orchestrator.state import Record
from orchestrator.terraform.apply_output import Errors
from tests import builders

APPLY = """
{node}: Creating...
some_port.node["demo-head"]: Creation complete after 2s [id=1]
╷
│ Error: Error waiting for instance (4f) to become ready: unexpected state 'ERROR', wanted target 'ACTIVE'
│
│   with some_server.node["demo-worker-1"],
│   on nodes.tf line 3, in resource "some_server" "node":
│
╵
"""
NETWORK = "│ Error: Quota exceeded for resources: ['network'].\n│\n│   with some_network.cluster[0],\n"
FAILED = CommandFailed("terraform apply", ["terraform", "apply"], "exit code 1", [])


def node_steps(nodes: int, least: int) -> NodeSteps:
    state_dir = builders.deployed("demo", nodes=nodes)
    record = state.read(state_dir)
    assert record is not None
    return NodeSteps(state_dir, record, least)


def failing(*names: str) -> Callable[[Cluster], None]:
    """Return a step that fails while one of these nodes is in the cluster."""

    def step(cluster: Cluster) -> None:
        reasons = {name: "no answer" for name in names if name in cluster.nodes}
        if reasons:
            raise NodesFailed("no ssh", reasons)

    return step


def test_deploy_continues_with_enough_nodes_and_records_the_others() -> None:
    trying = node_steps(nodes=4, least=3)
    cluster = trying.run_on_available_nodes(builders.cluster(nodes=4), failing("demo-worker-1"))
    trying.save(cluster)
    assert list(cluster.nodes) == ["demo-head", "demo-worker-0", "demo-worker-2"]
    record = state.read(trying.state_dir)
    assert record is not None
    assert (record.cluster, record.missing) == (cluster, {"demo-worker-1": "no answer"})


def test_cluster_with_a_new_head_that_was_not_reached_may_hold_runs() -> None:
    trying, replaced = node_steps(nodes=1, least=1), builders.output(nodes=1)
    replaced["nodes"]["demo-head"]["id"] = "id-new"
    with pytest.raises(NodesFailed):
        trying.run_on_available_nodes(clusters.read(replaced), failing("demo-head"))
    assert builders.read_record(trying.state_dir).configured


@pytest.mark.parametrize(
    ("least", "broken"), [(4, ["demo-worker-0"]), (3, ["demo-worker-0", "demo-worker-1"]), (1, ["demo-head"])]
)
def test_too_few_nodes_or_a_failed_head_end_the_deploy(least: int, broken: list[str]) -> None:
    with pytest.raises(NodesFailed):
        node_steps(nodes=4, least=least).run_on_available_nodes(builders.cluster(nodes=4), failing(*broken))


def test_failure_outside_the_cluster_ends_the_deploy() -> None:
    def step(cluster: Cluster) -> None:
        raise NodesFailed("no ssh", {"the jump host": "no answer"})

    with pytest.raises(NodesFailed, match="the jump host"):
        node_steps(nodes=4, least=3).run_on_available_nodes(builders.cluster(nodes=4), step)


def terraform_failure(*texts: str) -> CommandFailed:
    errors = Errors(lambda line: None)
    for text in texts:
        for line in text.splitlines():
            errors(line)
    return errors.of_nodes(FAILED)


def test_terraform_failures_are_sorted_by_node() -> None:
    failed = terraform_failure(APPLY)
    assert isinstance(failed, terraform.NodesNotCreated)
    assert list(failed.reasons) == ["demo-worker-1"]
    assert "unexpected state 'ERROR'" in failed.reasons["demo-worker-1"]
    assert failed.other_problems == 0


def test_error_without_a_node_is_no_missing_node() -> None:
    assert terraform_failure(NETWORK) is FAILED
    both = terraform_failure(APPLY, NETWORK)
    assert isinstance(both, terraform.NodesNotCreated)
    assert both.other_problems == 1


def requested(nodes: int, least: int | None) -> Record:
    return state.new_record({"name": "demo", "provider": "local", "nodes": nodes, "min_nodes": least})


def test_node_that_could_not_be_created_needs_min_nodes() -> None:
    failed = terraform.NodesNotCreated(FAILED, {"demo-worker-1": "ERROR"}, 0)
    assert provisioning._tolerable(requested(3, 2), failed) == {"demo-worker-1": "ERROR"}
    for record in (requested(3, None), requested(3, 3)):
        with pytest.raises(terraform.NodesNotCreated):
            provisioning._tolerable(record, failed)


def test_failed_head_takes_the_place_of_the_last_worker() -> None:
    failed = terraform.NodesNotCreated(FAILED, {"demo-head": "no room", "demo-worker-2": "ERROR"}, 0)
    reasons = {"demo-worker-2": "ERROR", "demo-worker-1": "given up for the head: no room"}
    assert provisioning._tolerable(requested(4, 2), failed) == reasons
    with pytest.raises(terraform.NodesNotCreated):
        provisioning._tolerable(requested(4, 3), failed)


def test_failed_network_ends_the_deploy() -> None:
    with pytest.raises(terraform.NodesNotCreated):
        provisioning._tolerable(requested(3, 1), terraform.NodesNotCreated(FAILED, {"demo-worker-1": "ERROR"}, 1))
