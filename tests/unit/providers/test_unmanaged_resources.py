"""A deploy whose Terraform state does not record the cluster: on OpenStack, GCP and Docker, with stand-ins."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator import state
from orchestrator.errors import StateError
from orchestrator.providers import gcp, local, openstack
from orchestrator.providers.gcp.api import client
from orchestrator.state import Record, StateDir
from orchestrator.terraform import state_file
from tests import builders
from tests.stand_ins import docker_stand_in, google_stand_in, openstack_cases
from tests.stand_ins.google_stand_in_memory import StandIn
from tests.unit.providers import test_gcp

PROVIDERS = {"openstack": openstack, "gcp": gcp, "local": local}
LABELS = {"orchestrator.cluster": "demo", "orchestrator.id": test_gcp.ID}
ON_ENGINE: docker_stand_in.Answers = {
    "/containers/json": (
        200,
        [
            [
                {"Id": f"id-of-{name}", "Names": [f"/{name}"], "Labels": LABELS, "State": "running"}
                for name in ("demo-head", "demo-worker-0")
            ]
        ],
    ),
    "/networks": (200, [[{"Id": "id-of-network", "Name": "demo-network", "Labels": LABELS}]]),
    "/volumes": (200, [{"Volumes": [{"Name": "demo-shared", "Labels": LABELS}]}]),
}


def drafts(name: str) -> Record:
    if name == "local":
        return builders.read_record(builders.deployed("demo"))
    return openstack_cases.record(openstack_cases.config()) if name == "openstack" else test_gcp.record()


@pytest.fixture(params=PROVIDERS)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Yield the name of a provider that has a cluster of a head and a worker."""
    if request.param == "openstack":
        with openstack_cases.selected_cloud(monkeypatch, tmp_path):
            yield request.param
    elif request.param == "gcp":
        monkeypatch.setattr(client, "LOOK_SECONDS", 0.0)
        with google_stand_in.listening(cloud := StandIn(), monkeypatch):
            test_gcp.deployed(cloud)
            yield request.param
    else:
        with docker_stand_in.listening(ON_ENGINE) as address:
            monkeypatch.setenv("DOCKER_HOST", address)
            yield request.param


@pytest.fixture
def provider(name: str) -> ModuleType:
    return PROVIDERS[name]


@pytest.fixture
def record(name: str) -> Record:
    """Return the record of a cluster whose head was configured by the last deploy."""
    cluster, drafted = builders.cluster(), drafts(name)
    update = {"cluster": cluster, "host_keys": builders.host_keys(cluster), "applied": drafted.variables}
    return drafted.model_copy(update=update)


@pytest.fixture
def state_dir(record: Record) -> StateDir:
    return state.for_cluster(record.config["name"])


def write_state(path: Path, identities: list[str], serial: int) -> None:
    """Write a state as after an apply that created resources with these identities."""
    resources = [
        {"type": "any", "name": f"thing{number}", "instances": [{"attributes": {"id": identity}}]}
        for number, identity in enumerate(identities)
    ]
    state.replace(path, json.dumps({"version": 4, "serial": serial, "lineage": "one", "resources": resources}))


def own(state_dir: StateDir, name: str) -> Path:
    return state_dir.terraform / name / state_file.FILE


@pytest.mark.parametrize("damage", [None, "", "5", '{"resources": 5}', '{"version": 4, "resources": []}'])
def test_cluster_without_a_recording_state_is_not_changed(
    provider: ModuleType, name: str, record: Record, state_dir: StateDir, damage: str | None
) -> None:
    if damage is not None:
        state.replace(own(state_dir, name), damage)
    with pytest.raises(StateError, match=f"{state_file.FILE} does not record .*-head") as caught:
        provider.unmanaged(state_dir, record)
    assert caught.value.exit_code == 1
    assert "orchestrator teardown --cluster" in caught.value.hint
    assert str(own(state_dir, name)) in caught.value.hint


def test_unconfigured_head_is_replaced(provider: ModuleType, record: Record, state_dir: StateDir) -> None:
    half = record.model_copy(update={"host_keys": {}})
    assert provider.unmanaged(state_dir, half) == provider.list_resources(half) != []


def test_copy_of_a_lost_state_records_the_cluster(provider: ModuleType, record: Record, state_dir: StateDir) -> None:
    write_state(state_dir.terraform_copy, [resource.identity for resource in provider.list_resources(record)], serial=7)
    assert provider.unmanaged(state_dir, record) == []


def test_state_older_than_the_copy_hides_no_resource(
    provider: ModuleType, name: str, record: Record, state_dir: StateDir
) -> None:
    write_state(state_dir.terraform_copy, [resource.identity for resource in provider.list_resources(record)], serial=7)
    write_state(own(state_dir, name), [], serial=3)
    assert provider.unmanaged(state_dir, record) == []


def is_of_worker(resource: Any) -> bool:
    return bool(resource.name.endswith("-worker-0"))


@pytest.mark.parametrize("kept", [True, False])
def test_worker_of_an_interrupted_apply_is_unrecorded(
    provider: ModuleType, name: str, record: Record, state_dir: StateDir, kept: bool
) -> None:
    resources = provider.list_resources(record)
    rest = [resource.identity for resource in resources if not is_of_worker(resource)]
    write_state(own(state_dir, name), rest, serial=8)
    if kept:
        write_state(state_dir.terraform_copy, rest, serial=7)
    assert (
        provider.unmanaged(state_dir, record)
        == [resource for resource in resources if resource.identity not in rest]
        != []
    )


def test_new_head_of_an_interrupted_change_is_unrecorded(
    provider: ModuleType, name: str, record: Record, state_dir: StateDir
) -> None:
    """The former head is gone, and its runs were fetched first."""
    changing = record.model_copy(update={"variables": {**record.variables, "nodes": 3}})
    kinds = ("server", "instance", "container")
    head = next(r for r in provider.list_resources(record) if r.kind in kinds and r.name.endswith("-head"))
    rest = [resource.identity for resource in provider.list_resources(record) if resource.identity != head.identity]
    before = head.identity if name == "local" else "the head before"
    write_state(state_dir.terraform_copy, [*rest, before], serial=7)
    write_state(own(state_dir, name), rest, serial=9)
    assert head in provider.unmanaged(state_dir, changing)
    with pytest.raises(StateError):  # without a change, no difference is explained
        provider.unmanaged(state_dir, record)


def test_head_in_the_copy_stays_even_in_a_change(
    provider: ModuleType, name: str, record: Record, state_dir: StateDir
) -> None:
    changing = record.model_copy(update={"variables": {**record.variables, "nodes": 3}})
    write_state(state_dir.terraform_copy, [resource.identity for resource in provider.list_resources(record)], serial=7)
    write_state(own(state_dir, name), [], serial=9)
    with pytest.raises(StateError, match="does not record"):
        provider.unmanaged(state_dir, changing)
