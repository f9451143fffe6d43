"""A deploy that is content with fewer nodes than were asked for."""

from collections.abc import Callable

import pytest

from orchestrator import state, terraform
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, NodesFailed
from orchestrator.lifecycle.rollout import Rollout
from orchestrator.providers import provisioning
from orchestrator.state import Record
from orchestrator.terraform.output import Errors
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


def effort(nodes: int, least: int) -> Rollout:
    state_dir = builders.deployed("demo", nodes=nodes)
    record = state.read(state_dir)
    assert record is not None
    return Rollout(state_dir, record, least)


def failing(*names: str) -> Callable[[Cluster], None]:
    """A step that fails as long as one of these nodes is among those it is taken with."""

    def step(cluster: Cluster) -> None:
        reasons = {name: "no answer" for name in names if name in cluster.nodes}
        if reasons:
            raise NodesFailed("no ssh", reasons)

    return step


def test_as_many_nodes_as_are_enough_go_on_and_the_others_are_recorded_with_their_reasons() -> None:
    trying = effort(nodes=4, least=3)
    cluster = trying.run_on_available_nodes(builders.cluster(nodes=4), failing("demo-worker-1"))
    trying.save(cluster)
    assert list(cluster.nodes) == ["demo-head", "demo-worker-0", "demo-worker-2"]
    record = state.read(trying.state_dir)
    assert record is not None
    assert (record.cluster, record.missing) == (cluster, {"demo-worker-1": "no answer"})


@pytest.mark.parametrize(
    ("least", "broken"), [(4, ["demo-worker-0"]), (3, ["demo-worker-0", "demo-worker-1"]), (1, ["demo-head"])]
)
def test_too_few_nodes_or_no_head_end_the_deploy(least: int, broken: list[str]) -> None:
    with pytest.raises(NodesFailed):
        effort(nodes=4, least=least).run_on_available_nodes(builders.cluster(nodes=4), failing(*broken))


def test_what_fails_outside_the_cluster_ends_the_deploy() -> None:
    def step(cluster: Cluster) -> None:
        raise NodesFailed("no ssh", {"the jump host": "no answer"})

    with pytest.raises(NodesFailed, match="the jump host"):
        effort(nodes=4, least=3).run_on_available_nodes(builders.cluster(nodes=4), step)


def heard(*texts: str) -> CommandFailed:
    errors = Errors(lambda line: None)
    for text in texts:
        for line in text.splitlines():
            errors(line)
    return errors.of_nodes(FAILED)


def test_what_terraform_could_not_make_is_sorted_by_node() -> None:
    failed = heard(APPLY)
    assert isinstance(failed, terraform.NodesNotMade)
    assert list(failed.reasons) == ["demo-worker-1"]
    assert "unexpected state 'ERROR'" in failed.reasons["demo-worker-1"]
    assert failed.others == 0


def test_an_error_that_is_of_no_node_is_no_missing_node() -> None:
    assert heard(NETWORK) is FAILED
    both = heard(APPLY, NETWORK)
    assert isinstance(both, terraform.NodesNotMade)
    assert both.others == 1


def asked_for(nodes: int, least: int | None) -> Record:
    return state.new_record({"name": "demo", "provider": "local", "nodes": nodes, "min_nodes": least})


def test_a_node_that_was_not_made_is_tolerated_only_where_that_was_asked_for() -> None:
    failed = terraform.NodesNotMade(FAILED, {"demo-worker-1": "ERROR"}, 0)
    assert provisioning._tolerable(asked_for(3, 2), failed) == {"demo-worker-1": "ERROR"}
    for record in (asked_for(3, None), asked_for(3, 3)):
        with pytest.raises(terraform.NodesNotMade):
            provisioning._tolerable(record, failed)


def test_where_the_head_could_not_be_made_the_last_worker_that_was_gives_way() -> None:
    failed = terraform.NodesNotMade(FAILED, {"demo-head": "no room", "demo-worker-2": "ERROR"}, 0)
    reasons = {"demo-worker-2": "ERROR", "demo-worker-1": "given up for the head: no room"}
    assert provisioning._tolerable(asked_for(4, 2), failed) == reasons
    with pytest.raises(terraform.NodesNotMade):
        provisioning._tolerable(asked_for(4, 3), failed)


def test_where_a_network_could_not_be_made_nothing_is_tolerated() -> None:
    with pytest.raises(terraform.NodesNotMade):
        provisioning._tolerable(asked_for(3, 1), terraform.NodesNotMade(FAILED, {"demo-worker-1": "ERROR"}, 1))
