"""Checks of a deploy before it changes anything."""

from orchestrator import state
from orchestrator.lifecycle import deploy
from orchestrator.lifecycle.deploy_steps import NodeSteps
from orchestrator.state import StateDir
from orchestrator.terraform import sources
from tests import builders


def test_head_that_was_never_reached_has_no_blocking_run() -> None:
    """As after a deploy that was killed between its apply and the first connection."""
    state_dir = builders.deployed("demo", nodes=3)
    record = state.read(state_dir)
    assert record is not None
    deploy._spare_runs(state_dir, record.model_copy(update={"host_keys": {}}), {"nodes": 1})


def applied_by_this_version(state_dir: StateDir) -> None:
    for name, text in sources._files("local").items():
        state.replace(state_dir.terraform / name, text)


def test_runs_block_changes_of_an_upgraded_root() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    record = builders.read_record(state_dir)
    applied_by_this_version(state_dir)
    assert deploy._unchanged(state_dir, record, record.variables)
    (state_dir.terraform / "local" / "main.tf").write_text("# of an older version")
    assert not deploy._unchanged(state_dir, record, record.variables)


def test_runs_do_not_block_grafana() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    variables = {"local": {"cpus": 1, "grafana": {"image": "sha256:1"}}}
    record = builders.read_record(state_dir).model_copy(update={"variables": variables, "applied": variables})
    assert deploy._unchanged(state_dir, record, {"local": {"cpus": 1, "grafana": {"image": ""}}})
    assert not deploy._unchanged(state_dir, record, {"local": {"cpus": 2, "grafana": {"image": "sha256:1"}}})


def test_unchanged_deploy_needs_no_check_of_runs() -> None:
    """No node of this cluster exists, so contacting one would fail."""
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    record = builders.read_record(state_dir)
    deploy._spare_runs(state_dir, record, record.variables)


def test_runs_block_changes_of_a_deploy_that_was_not_applied() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    fewer = {"nodes": 1}
    state.write(
        state_dir, builders.read_record(state_dir).model_copy(update={"variables": fewer})
    )  # the deploy was killed at this point
    assert not deploy._unchanged(state_dir, builders.read_record(state_dir), fewer)


def test_applied_deploy_is_recorded() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    variables = {"nodes": 3}
    record = builders.read_record(state_dir).model_copy(update={"variables": variables})
    NodeSteps(state_dir, record, 3).save(builders.cluster(3))
    assert deploy._unchanged(state_dir, builders.read_record(state_dir), variables)
    assert not deploy._unchanged(state_dir, builders.read_record(state_dir), {"nodes": 2})
