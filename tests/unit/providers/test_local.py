"""The provider `local`: its logic without an engine, and findings of its preflight."""

import fcntl
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError
from orchestrator.providers import local
from orchestrator.providers.local import cgroups, preflight_checks
from orchestrator.state import Record
from tests import builders, waiting
from tests.stand_ins import docker_stand_in
from tests.unit.conftest import StandIn, Start


def container(name: str, cluster: str, deployment: str, running: str = "running") -> dict[str, Any]:
    labels = {"orchestrator.cluster": cluster, "orchestrator.id": deployment}
    return {"Id": f"id-of-{name}", "Names": [f"/{name}"], "Labels": labels, "State": running}


def network(name: str, subnet: str, deployment: str) -> dict[str, Any]:
    labels = {"orchestrator.cluster": "any", "orchestrator.id": deployment}
    return {"Id": f"id-of-{name}", "Name": name, "Labels": labels, "IPAM": {"Config": [{"Subnet": subnet}]}}


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> Iterator[None]:
    """Simulate an engine with 4 cores and 8 GiB, and with two deployments called demo, one of them half down."""
    containers = [
        container("demo-head", "demo", "1a2b3c4d"),
        container("demo-worker-0", "demo", "1a2b3c4d", running="exited"),
        container("demo-worker-1", "demo", "another"),
    ]
    stand_in("docker", "exit 1")
    with docker_stand_in.listening({"/containers/json": (200, [containers])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        yield


def record(name: str = "demo") -> Record:
    deployed = state.read(builders.deployed(name))
    assert deployed is not None
    return deployed


def test_free_networks_are_tried_in_an_order_given_by_the_name() -> None:
    first = local.free_subnet("demo", [])
    assert first.subnet_of(IPv4Network("10.201.0.0/16"))
    assert local.free_subnet("demo", []) == first
    assert local.free_subnet("demo", [first]) != first


def test_overlapping_network_is_not_free() -> None:
    first = local.free_subnet("demo", [])
    assert not local.free_subnet("demo", [first.supernet(new_prefix=20)]).overlaps(first.supernet(new_prefix=20))


def test_no_free_network_names_the_key() -> None:
    with pytest.raises(PreflightError) as caught:
        local.free_subnet("demo", [IPv4Network("10.201.0.0/16")])
    assert "local.subnet" in caught.value.hint


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (
            {"OperatingSystem": "Docker Desktop"},
            "cannot have nodes: Docker Desktop runs containers in a virtual machine",
        ),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, "cannot have nodes: rootless Docker runs containers"),
    ],
)
def test_engine_whose_networks_cannot_be_reached_is_refused(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], problem: str
) -> None:
    info = {"NCPU": 4, "MemTotal": 8 << 30, "DockerRootDir": "/nowhere", **facts}
    with docker_stand_in.listening({"/info": (200, [info])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(PreflightError, match=problem):
            local.preflight(Config(name="free"), None)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"cpus": 5}, "local.cpus: 5 asked for, this machine has 4"),
        ({"memory": 9}, "local.memory: 9 GiB asked for on each of 2 nodes, this machine has 8.0"),
        ({"memory": 4.5}, "local.memory: 4.5 GiB asked for on each of 2 nodes, this machine has 8.0"),
    ],
)
def test_too_large_request_is_refused_with_key_and_value(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(PreflightError, match=problem):
        local.preflight(Config.model_validate({"name": "free", "local": settings}), None)


def test_request_for_the_whole_machine_is_accepted() -> None:
    local.preflight(Config.model_validate({"name": "free", "local": {"cpus": 4, "memory": 4}}), None)


@pytest.mark.parametrize(("owner", "kept"), [("1a2b3c4d", True), ("another", False), ("", False)])
def test_earlier_subnet_is_kept_until_another_network_uses_it(
    monkeypatch: pytest.MonkeyPatch, owner: str, kept: bool
) -> None:
    before = record().model_copy(update={"variables": {"local": {"subnet": "10.201.7.0/24"}}})
    with docker_stand_in.listening({"/networks": (200, [[network("there", "10.201.7.0/24", owner)]])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        subnet = local.variables(Config(name="demo"), before)["subnet"]
    assert (subnet == "10.201.7.0/24") == kept


def test_subnet_of_another_network_is_refused_and_own_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    networks = [network("office", "172.17.0.0/16", "another"), network("mine", "10.201.7.0/24", record().id)]
    with docker_stand_in.listening({"/networks": (200, [networks])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        local.preflight(Config.model_validate({"local": {"subnet": "10.201.7.0/24"}}), record())
        with pytest.raises(PreflightError, match=r"172\.17\.128\.0/24 overlaps 172\.17\.0\.0/16 of .* network office"):
            local.preflight(Config.model_validate({"local": {"subnet": "172.17.128.0/24"}}), record())
        with pytest.raises(PreflightError, match="of the Docker network mine"):
            local.preflight(Config.model_validate({"local": {"subnet": "10.201.7.0/24"}}), None)


def test_missing_docker_client_is_reported_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreflightError, match="docker is not on the PATH"):
        local.preflight(Config(name="free"), None)


def test_name_of_another_deployment_is_refused_with_its_resources() -> None:
    with pytest.raises(PreflightError, match="container demo-worker-1") as caught:
        local.preflight(Config(name="demo"), record())
    assert "container demo-head" not in caught.value.message
    assert "teardown --orphans --cluster demo" in caught.value.hint


def test_survey_lists_only_this_deployment() -> None:
    resources = [(str(resource), resource.usable) for resource in local.list_resources(record())]
    assert resources == [("container demo-head", True), ("container demo-worker-0", False)]


def test_missing_or_stopped_nodes_are_lost() -> None:
    recorded = {"node[head]": "demo-head", "node[w0]": "demo-worker-0", "network": "demo-network"}
    assert local.to_replace(record(), recorded) == ["node[w0]", "network"]


def test_unowned_resources_have_the_clusters_name() -> None:
    resources = local.unowned_resources(Config(name="demo"))
    assert [resource.name for resource in resources] == ["demo-head", "demo-worker-0", "demo-worker-1"]
    assert local.unowned_resources(Config(name="other")) == []


def test_too_many_nodes_for_the_memory_are_refused_with_the_limit() -> None:
    local.preflight(Config(name="free", nodes=24), None)
    with pytest.raises(PreflightError, match=r"nodes: 25: each would have 0\.29 of this machine's 8\.0 GiB") as caught:
        local.preflight(Config(name="free", nodes=25), None)
    assert caught.value.hint == "at most 24 nodes fit"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"nodes": 2}, (2.0, 2.0)),
        ({"nodes": 4}, (1.0, 1.0)),
        ({"nodes": 8}, (0.5, 4.0)),
        ({"nodes": 8, "local": {"cpus": 0.25}}, (0.25, 0.25)),
    ],
)
def test_share_below_one_core_is_a_limit_only_if_requested(
    settings: dict[str, Any], expected: tuple[float, float]
) -> None:
    variables = local.variables(Config.model_validate({"name": "demo", **settings}), record())
    assert (variables["cpus"], variables["quota"]) == expected


@pytest.mark.parametrize(
    ("facts", "parent", "hierarchy", "written"),
    [
        ({}, "/orchestrator/a-b", "/sys/fs/cgroup/systemd", "/orchestrator/a-b"),
        (
            {"CgroupVersion": "2", "CgroupDriver": "cgroupfs"},
            "/orchestrator/a-b",
            "/sys/fs/cgroup",
            "/orchestrator/a-b",
        ),
        (
            {"CgroupVersion": "2", "CgroupDriver": "systemd"},
            "orchestrator-a_b.slice",
            "/sys/fs/cgroup",
            "/orchestrator.slice/orchestrator-a_b.slice",
        ),
    ],
)
def test_nodes_write_only_the_control_group_of_their_cluster(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, str], parent: str, hierarchy: str, written: str
) -> None:
    info = {"NCPU": 4, "MemTotal": 8 << 30, "DockerRootDir": "/nowhere", **facts}
    with docker_stand_in.listening({"/info": (200, [info])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        options = cgroups.options(Engine(), "a-b")
    path = hierarchy + written
    assert options == (parent, [f"{hierarchy}:{hierarchy}:ro", f"{path}:{path}"])


def test_only_an_empty_control_group_of_the_cluster_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    for path in (
        "orchestrator/demo",
        "cpu/orchestrator/demo/node",
        "pids/orchestrator/demo",
        "pids/orchestrator/other",
    ):
        (root / path).mkdir(parents=True)
    cgroups.remove_empty("demo", root)
    empty = {str(path.relative_to(root)) for path in root.rglob("*") if not any(path.iterdir())}
    assert empty == {"cpu/orchestrator/demo/node", "pids/orchestrator/other"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"nodes": 2}, (3686, 3686)),
        ({"nodes": 8}, (921, 1331)),
        ({"nodes": 24}, (307, 716)),
        ({"nodes": 8, "local": {"memory": 0.5}}, (512, 512)),
    ],
)
def test_small_head_gets_more_memory_unless_configured(settings: dict[str, Any], expected: tuple[int, int]) -> None:
    variables = local.variables(Config.model_validate({"name": "demo", **settings}), record())
    assert (variables["memory"], variables["head_memory"]) == expected


def test_deploy_names_other_clusters_that_take_all_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    preflight_checks._note_other_clusters(Engine(), Config(name="second"))
    assert "demo: local clusters on this machine too" in capsys.readouterr().err
    preflight_checks._note_other_clusters(Engine(), Config(name="demo"))
    preflight_checks._note_other_clusters(
        Engine(), Config.model_validate({"name": "second", "local": {"cpus": 1, "memory": 3}})
    )
    assert capsys.readouterr().err == ""


PREPARE = """
from orchestrator import state
from orchestrator.docker import build, images
from orchestrator.providers import local
from pathlib import Path
import sys
images.find = lambda engine, name: name if Path(sys.argv[1]).exists() else None
build.ensure = lambda engine, target, variant, log: print("built" if not Path(sys.argv[1]).exists() else "there")
local.grafana.prepare = lambda *_: None
state_dir = state.for_cluster("demo")
local.prepare(state.read(state_dir), state_dir)
print("done")
"""


def test_second_deploy_waits_for_the_node_image_of_the_first(start: Start, tmp_path: Path) -> None:
    record()
    lock, image, note = state.cache() / "images" / "lock-of-nodes", tmp_path / "image", tmp_path / "note"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        second = start("-c", PREPARE, str(image), output=note)
        assert waiting.until(lambda: "Waiting for another command that builds the nodes' image" in note.read_text())
        image.touch()
    assert second.wait() == 0
    assert note.read_text().endswith("there\ndone\n")


def test_deploy_with_an_existing_node_image_does_not_wait(start: Start, tmp_path: Path) -> None:
    record()
    lock, note = state.cache() / "images" / "lock-of-nodes", tmp_path / "note"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert start("-c", PREPARE, "/", output=note).wait(60) == 0
    assert note.read_text() == "done\n"


HERE = {"ID": "here", "Name": "lab2"}


@pytest.mark.parametrize(
    ("engine", "is_same"),
    [
        ({"id": "there", "machine": "lab1"}, False),
        ({"id": "here", "machine": "lab1"}, True),  # the machine has another name now
        ({"id": "there", "machine": "lab2"}, True),  # Docker was installed again
        (None, True),  # deployed by an earlier version
    ],
)
def test_cluster_on_another_machines_engine_is_not_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch, engine: dict[str, str] | None, is_same: bool
) -> None:
    """The state directory is on the home directory of both machines."""
    deployed = record().model_copy(update={"variables": {"local": {"engine": engine} if engine else {}}})
    facts = {**docker_stand_in.USUAL["/info"][1][0], **HERE}
    with docker_stand_in.listening({"/info": (200, [facts])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        if is_same:
            assert local.list_resources(deployed) == []
            return
        with pytest.raises(PreflightError, match="is on the Docker Engine of machine lab1, not on that of lab2") as at:
            local.list_resources(deployed)
    assert "work on lab1, or set DOCKER_HOST or DOCKER_CONTEXT" in at.value.hint
    assert at.value.hint.endswith("if that engine is gone: `orchestrator teardown --forget --cluster demo`")


def test_record_names_the_engine_of_the_deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {**docker_stand_in.USUAL["/info"][1][0], **HERE}
    with docker_stand_in.listening({"/info": (200, [facts])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        assert local.variables(Config(name="demo"), record())["engine"] == {"id": "here", "machine": "lab2"}
