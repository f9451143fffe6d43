"""What a deploy refuses, or does not, before it touches anything."""

from orchestrator import state
from orchestrator.lifecycle import deploy
from orchestrator.lifecycle.rollout import Rollout
from orchestrator.state import StateDir
from orchestrator.terraform import sources
from tests import builders


def test_a_cluster_whose_head_was_never_reached_has_no_run_that_could_be_in_the_way() -> None:
    """As a deploy leaves it that is killed between its apply and the first connection."""
    state_dir = builders.deployed("demo", nodes=3)
    record = state.read(state_dir)
    assert record is not None
    deploy._spare_runs(state_dir, record.model_copy(update={"host_keys": {}}), {"nodes": 1})


def applied_by_this_version(state_dir: StateDir) -> None:
    for name, text in sources._files("local").items():
        state.replace(state_dir.terraform / name, text)


def test_after_an_upgrade_runs_are_in_the_way_of_what_another_root_may_change() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    record = builders.recorded(state_dir)
    applied_by_this_version(state_dir)
    assert deploy._unchanged(state_dir, record, record.variables)
    (state_dir.terraform / "local" / "main.tf").write_text("# of an older version")
    assert not deploy._unchanged(state_dir, record, record.variables)


def test_grafana_may_come_and_go_beside_a_run() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    variables = {"local": {"cpus": 1, "grafana": {"image": "sha256:1"}}}
    record = builders.recorded(state_dir).model_copy(update={"variables": variables, "applied": variables})
    assert deploy._unchanged(state_dir, record, {"local": {"cpus": 1, "grafana": {"image": ""}}})
    assert not deploy._unchanged(state_dir, record, {"local": {"cpus": 2, "grafana": {"image": "sha256:1"}}})


def test_a_deploy_that_changes_nothing_asks_for_no_run() -> None:
    """No node is asked: none of these is there."""
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    record = builders.recorded(state_dir)
    deploy._spare_runs(state_dir, record, record.variables)


def test_after_a_deploy_that_applied_nothing_runs_are_in_the_way_of_what_it_wanted() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    fewer = {"nodes": 1}
    state.write(
        state_dir, builders.recorded(state_dir).model_copy(update={"variables": fewer})
    )  # and then it was killed
    assert not deploy._unchanged(state_dir, builders.recorded(state_dir), fewer)


def test_a_deploy_that_was_applied_is_known_as_such() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    variables = {"nodes": 3}
    record = builders.recorded(state_dir).model_copy(update={"variables": variables})
    Rollout(state_dir, record, 3).save(builders.cluster(3))
    assert deploy._unchanged(state_dir, builders.recorded(state_dir), variables)
    assert not deploy._unchanged(state_dir, builders.recorded(state_dir), {"nodes": 2})
