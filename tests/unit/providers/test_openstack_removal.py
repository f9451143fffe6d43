"""Removal by the provider openstack: in a possible order, with retries, and only of its own resources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import OrchestratorError
from orchestrator.providers import Resource
from orchestrator.providers import openstack as provider
from orchestrator.providers.openstack.api import removal
from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, record
from tests.stand_ins.openstack_stand_in import OpenStack


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    monkeypatch.setattr(removal, "LOOK_SECONDS", 0.01)
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        yield openstack


def ours() -> list[Resource]:
    return provider.list_resources(record(config()))


def a_resource(kind: str) -> Resource:
    return next(resource for resource in ours() if resource.kind == kind)


def deletions(cloud: OpenStack) -> list[str]:
    """Return listings of deleted items, in the order of deletion."""
    changes = [line.rpartition("/") for line in cloud.requests if line.startswith(("DELETE", "PUT"))]
    return [name if name == "remove_router_interface" else path.rpartition("/")[2] for path, _, name in changes]


def test_only_resources_of_the_deployment_are_removed(cloud: OpenStack) -> None:
    provider.remove(config(), ours())
    assert ours() == []
    assert sorted(network["name"] for network in cloud.listed("networks")) == [
        "orchestrator-sdk",
        "orchestrator-sdk-0badcafe",
        "orchestrator-sdk-1a2b3c4d-0badcafe",
        "orchestrator-sdk-1a2b3c4d-other",
        "orchestrator-sdk-two-1a2b3c4d",
        "private",
        "public",
    ]
    assert [server["name"] for server in cloud.listed("servers")] == ["sdk-worker-1"]
    assert [router["name"] for router in cloud.listed("routers")] == ["router1"]


def test_dependent_resources_are_removed_first(cloud: OpenStack) -> None:
    provider.remove(config(), reversed(ours()))
    assert deletions(cloud) == [
        *["servers"] * 2,
        "floatingips",
        "remove_router_interface",
        "routers",
        *["ports"] * 2,
        "subnets",
        *["networks"] * 2,
        "security-groups",
        "os-keypairs",
        "os-server-groups",
    ]


def test_router_is_detached_from_a_subnet_before_removal(cloud: OpenStack) -> None:
    provider.remove(config(), [a_resource("router-interface")])
    assert deletions(cloud) == ["remove_router_interface"]
    assert {"router", "subnet"} <= {resource.kind for resource in ours()}
    assert "router-interface" not in {resource.kind for resource in ours()}


def test_servers_are_awaited_before_resources_that_they_use(cloud: OpenStack) -> None:
    server = a_resource("server")
    cloud.lingering[server.key] = 3
    provider.remove(config(), ours())
    path = f"/compute/v2.1/servers/{server.key}"
    last = max(number for number, line in enumerate(cloud.requests) if line == f"GET {path}")
    first = min(number for number, line in enumerate(cloud.requests) if line.startswith("DELETE /network"))
    assert last < first


def test_already_removed_resource_is_no_error(cloud: OpenStack) -> None:
    resources = ours()
    provider.remove(config(), resources)
    provider.remove(config(), resources)


def test_empty_removal_needs_no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nowhere/clouds.yaml")
    provider.remove(config(), [])


def test_resource_in_use_is_retried(cloud: OpenStack) -> None:
    group = a_resource("security-group")
    cloud.refusals[f"DELETE /network/v2.0/security-groups/{group.key}"] = [409, 409]
    provider.remove(config(), [group])
    assert group not in ours()


def test_resource_that_stays_in_use_is_reported_last(monkeypatch: pytest.MonkeyPatch, cloud: OpenStack) -> None:
    monkeypatch.setattr(removal, "FREE_SECONDS", 0.1)
    router = a_resource("router")
    cloud.refusals[f"DELETE /network/v2.0/routers/{router.key}"] = [409] * 1000
    with pytest.raises(OrchestratorError) as caught:
        provider.remove(config(), ours())
    assert f"`openstack router delete {router.key}` failed (HTTP 409)" in caught.value.message
    assert ours() == [router]


def test_server_that_is_not_deleted_is_awaited_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, cloud: OpenStack
) -> None:
    monkeypatch.setattr(removal, "GONE_SECONDS", 0.1)
    server = a_resource("server")
    cloud.lingering[server.key] = 1000
    with pytest.raises(OrchestratorError, match="still there after 0 s"):
        provider.remove(config(), [server])


def test_volumes_are_removed_after_their_servers(cloud: OpenStack) -> None:
    cloud.add_volumes()
    volume = {"id": "v1", "name": "orchestrator-sdk-1a2b3c4d-head", "status": "available", "metadata": {}}
    cloud.listed("volumes").append(volume)
    cloud.refusals["DELETE /volume/v3/volumes/v1"] = [400]  # Cinder's status for a volume that is still attached
    cloud.lingering["v1"] = 2
    provider.remove(config(), ours())
    assert deletions(cloud)[:4] == ["servers", "servers", "volumes", "volumes"]
    assert ours() == []
