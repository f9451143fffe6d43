"""Checks of a deploy before it changes anything."""

import contextlib
import json
from typing import Any

import pytest

from orchestrator import state
from orchestrator.ansible.inventory import inventory
from orchestrator.docker import context
from orchestrator.errors import StateError
from orchestrator.lifecycle import deploy
from orchestrator.lifecycle.deploy_steps import NodeSteps
from orchestrator.providers import trainer_image
from orchestrator.runs import control
from orchestrator.state import Record, StateDir
from orchestrator.terraform import sources
from tests import builders


def test_head_that_was_never_reached_has_no_blocking_run() -> None:
    """As after a deploy that was killed between its apply and the first connection."""
    state_dir = builders.deployed("demo", nodes=3)
    record = state.read(state_dir)
    assert record is not None
    deploy._spare_runs(
        state_dir, record.model_copy(update={"host_keys": {}}), record.model_copy(update={"variables": {"nodes": 1}})
    )


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
    deploy._spare_runs(state_dir, record, record)


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


@pytest.fixture
def run_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a head with a run."""
    monkeypatch.setattr(control, "head_session", lambda state_dir, cluster: contextlib.nullcontext())
    monkeypatch.setattr(control, "active", lambda head: ["resnet20-mnist-1"])


def deployed_on_hosts() -> tuple[StateDir, Record]:
    """Return a cluster whose trainer is a container that Ansible started."""
    state_dir = builders.deployed("demo", provider="hosts")
    record = builders.read_record(state_dir)
    assert record.cluster
    cluster = record.cluster.model_copy(update={"trainer": "container"})
    record = record.model_copy(update={"cluster": cluster})
    hosts = inventory(cluster, state_dir.key, state_dir.known_hosts, record.host_keys, trainer_image.trainer(record))
    state.replace(state_dir.ansible / "inventory.json", json.dumps(hosts))
    return state_dir, record


@pytest.mark.usefixtures("run_under_way")
def test_deploy_with_the_same_trainer_spares_a_run() -> None:
    state_dir, record = deployed_on_hosts()
    deploy._spare_runs(state_dir, record, record)


@pytest.mark.usefixtures("run_under_way")
@pytest.mark.parametrize("setting", [{"framework": "pytorch"}, {"image": "registry.example.org/own:1"}])
def test_run_blocks_another_trainer(setting: dict[str, Any]) -> None:
    state_dir, record = deployed_on_hosts()
    other = record.model_copy(update={"config": {**record.config, **setting}})
    with pytest.raises(StateError, match="run resnet20-mnist-1 is using the cluster"):
        deploy._spare_runs(state_dir, record, other)


@pytest.mark.usefixtures("run_under_way")
def test_run_blocks_the_trainer_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    state_dir, record = deployed_on_hosts()
    monkeypatch.setattr(context, "inputs", lambda: iter(()))
    with pytest.raises(StateError, match="is using the cluster"):
        deploy._spare_runs(state_dir, record, record)


@pytest.mark.usefixtures("run_under_way")
@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"all": {"vars": null}}'])
def test_run_blocks_a_deploy_if_the_former_trainer_is_unknown(content: str | None) -> None:
    state_dir, record = deployed_on_hosts()
    path = state_dir.ansible / "inventory.json"
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(StateError, match="is using the cluster"):
        deploy._spare_runs(state_dir, record, record)
