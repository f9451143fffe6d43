"""Teardowns with obstacles, with a stand-in for Docker Engine."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import providers, state, terraform
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError, StateError
from orchestrator.lifecycle import fetch_before_removal, teardown
from orchestrator.lifecycle.receipt import Receipt
from orchestrator.providers import Resource
from orchestrator.state import StateDir
from tests import builders, waiting
from tests.stand_ins import docker_stand_in, google_stand_in, google_stand_in_data, google_stand_in_memory
from tests.stand_ins.google_stand_in_data import PROJECT
from tests.unit.conftest import StandIn, Start

HOLD = """
import sys
from orchestrator import state
from orchestrator.state import cluster_lock
with cluster_lock.held(state.for_cluster("demo")):
    print("held")
    sys.stdin.read()
"""
OnEngine = Callable[..., None]


def container(name: str, deployment: str) -> dict[str, Any]:
    """Return a running container of cluster demo, as an engine lists it."""
    labels = {"orchestrator.cluster": "demo", "orchestrator.id": deployment}
    return {"Id": f"id-of-{name}", "Names": [f"/{name}"], "Labels": labels, "State": "running"}


class Removals(list[str]):
    """Ids of the containers that an engine has removed; each of them leaves the ``listing`` of the engine."""

    def __init__(self, listing: list[dict[str, Any]]) -> None:
        super().__init__()
        self.listing = listing

    def append(self, identity: str) -> None:
        super().append(identity)
        self.listing[:] = [each for each in self.listing if each["Id"] != identity]


@pytest.fixture
def on_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnEngine]:
    """Return a function that puts containers of cluster demo, by deployment, on an engine that cannot remove them."""
    with ExitStack() as stack:

        def put(**containers: str) -> None:
            listing = [container(name, deployment) for name, deployment in containers.items()]
            answers: docker_stand_in.Answers = {"/containers/json": (200, [listing])}
            monkeypatch.setenv("DOCKER_HOST", stack.enter_context(docker_stand_in.listening(answers)))

        put()
        yield put


def applied(**changes: Any) -> StateDir:
    """Write the state of a cluster with resources of Terraform."""
    state_dir = builders.deployed("demo")
    record = state.read(state_dir)
    assert record is not None
    state.write(state_dir, record.model_copy(update=changes))
    state.replace(state_dir.terraform / "local" / terraform.state_file.FILE, '{"version": 4}')
    return state_dir


NODE = {"index_key": "demo-head", "attributes": {"input": {"value": {"name": "demo-head"}}}}
RECORDED = {"version": 4, "resources": [{"type": "terraform_data", "name": "node", "instances": [NODE]}]}


def test_labelled_resources_are_removed_without_terraform(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Terraform's state records the node: what it does not record is removed before Terraform is started."""
    state.replace(applied().terraform / "local" / terraform.state_file.FILE, json.dumps(RECORDED))
    monkeypatch.setattr(terraform.command, "PROGRAMS", ("no-such-terraform",))
    listing = [container("demo-head", "1a2b3c4d")]
    answers: docker_stand_in.Answers = {
        "/containers/json": (200, [listing]),
        "/containers/id-of-demo-head/json": (200, [{"Id": "id-of-demo-head"}]),
        "/containers/id-of-demo-head": (200, []),
    }
    with docker_stand_in.listening(answers, Removals(listing)) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        receipt = teardown.teardown("demo")
    assert ([resource.name for resource in receipt.made], receipt.left) == (["demo-head"], [])
    assert state.cluster_names() == []
    messages = capsys.readouterr().err
    assert "neither terraform nor tofu is on the PATH" in messages
    assert "removing by label instead" in messages


@pytest.mark.usefixtures("on_engine")
@pytest.mark.parametrize("damaged", ["", "5", '{"resources": 5}', "[" * 100_000])
def test_damaged_terraform_state_is_no_obstacle(stand_in: StandIn, damaged: str) -> None:
    stand_in("terraform", "exit 1")
    state.replace(applied().terraform / "local" / terraform.state_file.FILE, damaged)
    assert teardown.teardown("demo") == Receipt("demo", [], [])
    assert state.cluster_names() == []


@pytest.mark.usefixtures("on_engine")
def test_configuration_of_an_older_version_is_no_obstacle(stand_in: StandIn) -> None:
    stand_in("terraform", "exit 0")
    applied(config={"provider": "local", "nodes": "many", "colour": "blue"})
    teardown.teardown("demo")
    assert state.cluster_names() == []


def with_a_run(monkeypatch: pytest.MonkeyPatch) -> StateDir:
    """Write the state of a cluster with an unreachable head with the only copy of three runs, two of them damaged."""
    monkeypatch.setattr(fetch_before_removal, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(fetch_before_removal, "PAUSE_SECONDS", 0.05)
    output = builders.output()
    for number, node in enumerate(output["nodes"].values()):
        node["private_address"] = f"127.0.99.{number}"  # no node has this address
    state_dir = applied(cluster=clusters.read(output))
    state.replace(state_dir.known_hosts, "")
    state.replace(state_dir.runs / "a" / "run.json", builders.run(id="a").model_dump_json())
    state.replace(state_dir.runs / "b" / "run.json", "{")
    (state_dir.runs / "c" / "run.json").mkdir(parents=True)
    return state_dir


def test_teardown_that_would_lose_a_run_is_refused_and_names_it(
    on_engine: OnEngine, stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("terraform", f"echo ran >> {tmp_path}/terraform-ran")
    on_engine(**{"demo-head": "1a2b3c4d"})
    state_dir = with_a_run(monkeypatch)
    with pytest.raises(StateError, match="3 runs are not fetched\na: the head does not answer") as caught:
        teardown.teardown("demo")
    assert caught.value.exit_code == 1
    for run in ("b", "c"):
        assert f"\n{run}: {state_dir.runs / run / 'run.json'}: " in str(caught.value)
    assert "`orchestrator teardown --discard-runs --cluster demo`" in caught.value.hint
    assert not (tmp_path / "terraform-ran").exists()
    assert state.cluster_names() == ["demo"]


def test_teardown_that_discards_runs_continues_and_names_them(
    on_engine: OnEngine, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in("terraform", "exit 0")
    on_engine(**{"demo-head": "1a2b3c4d"})
    with_a_run(monkeypatch)
    receipt = teardown.teardown("demo", discard_runs=True)  # the engine of this test refuses every removal
    assert [resource.name for resource in receipt.left] == ["demo-head"]
    messages = capsys.readouterr().err
    assert "run a is discarded: the head does not answer" in messages
    assert "run b is discarded: " in messages


@pytest.mark.usefixtures("on_engine")
def test_runs_of_a_removed_cluster_are_no_obstacle(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in("terraform", "exit 0")
    with_a_run(monkeypatch)
    teardown.teardown("demo")
    assert state.cluster_names() == []


PROJECT_GONE = [(403, "Project demo-project has been deleted.", "forbidden"), (404, "Unknown project id", "notFound")]


@pytest.mark.parametrize("answer", PROJECT_GONE)
def test_cluster_of_a_deleted_project_can_be_forgotten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: tuple[int, str, str]
) -> None:
    monkeypatch.setattr(fetch_before_removal, "HEAD_SECONDS", 0.0)
    state_dir = with_a_run(monkeypatch)
    in_google = {"config": {"provider": "gcp", "nodes": 2}, "variables": {"gcp": {"project": PROJECT}}}
    record = state.read(state_dir)
    assert record is not None
    state.write(state_dir, record.model_copy(update=in_google))
    cloud = google_stand_in_memory.StandIn()
    cloud.refused["projects/"] = google_stand_in_data.refusal(*answer)
    with google_stand_in.listening(cloud, monkeypatch):
        with pytest.raises(OrchestratorError) as caught:
            teardown.teardown("demo")
        assert caught.value.hint.endswith("`orchestrator teardown --forget --cluster demo`")
        assert teardown.why_unknown("demo") == caught.value.message
    teardown.forget("demo")
    assert state.cluster_names() == []
    assert not state_dir.terraform.exists()
    assert fetch_before_removal.unfetched(state_dir) == []  # else no later cluster of this name could be removed
    assert "run a is discarded" in capsys.readouterr().err


def test_cluster_that_exists_is_not_forgotten(on_engine: OnEngine) -> None:
    applied()
    on_engine(**{"demo-head": "1a2b3c4d"})
    with pytest.raises(StateError, match="is not gone: its provider has container demo-head") as caught:
        teardown.why_unknown("demo")
    assert caught.value.hint == "`orchestrator teardown --cluster demo` removes them"
    on_engine()
    assert teardown.why_unknown("demo") == "its provider has no resources of it"
    with pytest.raises(StateError, match="is not deployed"):
        teardown.why_unknown("other")


def test_hosts_that_do_not_answer_can_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    applied(config={"provider": "hosts", "nodes": 2})
    held = [Resource("host", "a", "a", usable=True), Resource("host", "b", "b", usable=False)]
    monkeypatch.setattr(providers.get("hosts"), "list_resources", lambda record: held)
    with pytest.raises(StateError, match=r"its provider has host a$"):
        teardown.why_unknown("demo")
    del held[0]
    assert teardown.why_unknown("demo") == "no answer from host b"


def test_resources_that_the_engine_keeps_are_in_the_receipt(
    on_engine: OnEngine, stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in("terraform", "exit 0")
    applied()
    on_engine(**{"demo-head": "1a2b3c4d", "demo-worker-0": "another"})
    receipt = teardown.teardown("demo")
    assert ([r.name for r in receipt.made], [r.name for r in receipt.left]) == (["demo-head"], ["demo-head"])
    assert state.cluster_names() == ["demo"]
    assert "`docker container rm id-of-demo-head` failed" in " ".join(capsys.readouterr().err.split())


def test_orphans_have_the_name_and_no_deployment_here(on_engine: OnEngine) -> None:
    applied()
    on_engine(**{"demo-head": "1a2b3c4d", "demo-worker-0": "another"})
    assert [orphan.name for orphan in teardown.orphans(Config(name="demo"))] == ["demo-worker-0"]


def test_orphans_that_disappear_meanwhile_are_ignored(on_engine: OnEngine) -> None:
    on_engine(**{"demo-worker-0": "another"})
    resources = teardown.orphans(Config(name="demo"))
    on_engine()
    assert teardown.remove_orphans(Config(name="demo"), resources).gone == resources


def test_orphans_are_kept_while_another_command_holds_the_lock(on_engine: OnEngine, start: Start) -> None:
    on_engine(**{"demo-worker-0": "another"})
    resources = teardown.orphans(Config(name="demo"))
    assert waiting.read_line(start("-c", HOLD)) == "held"
    with pytest.raises(StateError, match="is locked by pid"):
        teardown.remove_orphans(Config(name="demo"), resources)
