"""Checks of a deploy before it changes anything."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from orchestrator import providers, state
from orchestrator.ansible.inventory import inventory
from orchestrator.config import Config
from orchestrator.errors import StateError
from orchestrator.gpu_compatibility import Pairing
from orchestrator.lifecycle import deploy
from orchestrator.lifecycle.deploy_steps import NodeSteps
from orchestrator.providers import trainer_image
from orchestrator.state import Record, StateDir
from orchestrator.terraform import sources
from tests import builders
from tests.stand_ins import ssh_stand_in


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


@pytest.mark.parametrize("deployed_before", [False, True])
def test_recorded_paths_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, deployed_before: bool) -> None:
    monkeypatch.chdir(tmp_path)
    provider, config = providers.get("local"), Config.model_validate({"name": "demo", "train": {"data": "data"}})
    monkeypatch.setattr(provider, "prepare", lambda *_: None)
    monkeypatch.setattr(provider, "variables", lambda *_: {})
    state_dir = builders.deployed("demo") if deployed_before else state.for_cluster("demo")
    record = deploy._draft(state_dir, config, provider, Pairing())
    assert record.config["train"]["data"] == str(tmp_path / "data")


def test_applied_deploy_is_recorded() -> None:
    state_dir = builders.deployed("demo", nodes=3)
    applied_by_this_version(state_dir)
    variables = {"nodes": 3}
    record = builders.read_record(state_dir).model_copy(update={"variables": variables})
    NodeSteps(state_dir, record, 3).save(builders.cluster(3))
    assert deploy._unchanged(state_dir, builders.read_record(state_dir), variables)
    assert not deploy._unchanged(state_dir, builders.read_record(state_dir), {"nodes": 2})


UNIT = b"orchestrator-resnet20-mnist-1.service loaded active running -\n"
Hosts = tuple[StateDir, Record]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Yield a cluster whose trainer is a container that Ansible started, with a run on its head."""
    with ssh_stand_in.listening(lambda command: UNIT if "list-units" in command else None) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key)
        cluster = cluster.model_copy(update={"trainer": "container"})
        config = {**Config(name="demo", nodes=1).model_dump(mode="json"), "provider": "hosts"}
        record = Record(id="1a2b3c4d", config=config, cluster=cluster, host_keys=builders.host_keys(cluster))
        write_inventory(state_dir, record, trainer_image.trainer(record))
        yield state_dir, record


def write_inventory(state_dir: StateDir, record: Record, trainer: dict[str, Any]) -> None:
    assert record.cluster
    content = inventory(record.cluster, state_dir.key, state_dir.known_hosts, record.host_keys, trainer)
    state.replace(state_dir.ansible / "inventory.json", json.dumps(content))


def test_deploy_with_the_same_trainer_spares_a_run(hosts: Hosts) -> None:
    state_dir, record = hosts
    deploy._spare_runs(state_dir, record, record)


@pytest.mark.parametrize("setting", [{"framework": "pytorch"}, {"image": "registry.example.org/own:1"}])
def test_run_blocks_another_trainer(hosts: Hosts, setting: dict[str, Any]) -> None:
    state_dir, record = hosts
    other = record.model_copy(update={"config": {**record.config, **setting}})
    with pytest.raises(StateError, match="run resnet20-mnist-1 is using the cluster"):
        deploy._spare_runs(state_dir, record, other)


@pytest.mark.parametrize("gpus", [0, 1])
def test_run_blocks_another_driver_only_on_nodes_with_gpus(hosts: Hosts, gpus: int) -> None:
    """A node of a cloud restarts to load it."""
    state_dir, record = hosts
    assert record.cluster
    nodes = {name: node.model_copy(update={"gpus": gpus}) for name, node in record.cluster.nodes.items()}
    record = record.model_copy(update={"cluster": record.cluster.model_copy(update={"nodes": nodes})})
    gpu = {**record.config["gpu"], "driver": "cuda-repository"}
    other = record.model_copy(update={"config": {**record.config, "gpu": gpu}})
    with pytest.raises(StateError, match="is using the cluster") if gpus else nullcontext():
        deploy._spare_runs(state_dir, record, other)


def test_run_blocks_the_trainer_of_another_version(hosts: Hosts) -> None:
    state_dir, record = hosts
    trainer = trainer_image.trainer(record)
    image = trainer["trainer_image"].partition(":")[0]
    write_inventory(state_dir, record, {**trainer, "trainer_image": f"{image}:{builders.DIGEST}"})
    with pytest.raises(StateError, match="is using the cluster"):
        deploy._spare_runs(state_dir, record, record)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"all": {"vars": null}}'])
def test_run_blocks_a_deploy_if_the_former_trainer_is_unknown(hosts: Hosts, content: str | None) -> None:
    state_dir, record = hosts
    path = state_dir.ansible / "inventory.json"
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(StateError, match="is using the cluster"):
        deploy._spare_runs(state_dir, record, record)
