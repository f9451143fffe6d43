"""What the provider openstack removes: in an order that works, patiently, and nothing that is not ours."""

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
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    monkeypatch.setattr(removal, "LOOK_SECONDS", 0.01)
    with openstack_cases.chosen(monkeypatch, tmp_path) as openstack:
        yield openstack


def ours() -> list[Resource]:
    return provider.list_resources(record(config()))


def a_resource(kind: str) -> Resource:
    return next(resource for resource in ours() if resource.kind == kind)


def deletions(there: OpenStack) -> list[str]:
    """Which listings things were deleted from, and in which order."""
    changes = [line.rpartition("/") for line in there.asked if line.startswith(("DELETE", "PUT"))]
    return [name if name == "remove_router_interface" else place.rpartition("/")[2] for place, _, name in changes]


def test_everything_of_the_deployment_goes_and_nothing_else(there: OpenStack) -> None:
    provider.remove(config(), ours())
    assert ours() == []
    assert sorted(network["name"] for network in there.listed("networks")) == [
        "orchestrator-sdk",
        "orchestrator-sdk-0badcafe",
        "orchestrator-sdk-1a2b3c4d-0badcafe",
        "orchestrator-sdk-1a2b3c4d-other",
        "orchestrator-sdk-two-1a2b3c4d",
        "private",
        "public",
    ]
    assert [server["name"] for server in there.listed("servers")] == ["sdk-worker-1"]
    assert [router["name"] for router in there.listed("routers")] == ["router1"]


def test_what_holds_others_goes_first(there: OpenStack) -> None:
    provider.remove(config(), reversed(ours()))
    assert deletions(there) == [
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


def test_a_router_leaves_a_subnet_without_an_end_of_either(there: OpenStack) -> None:
    provider.remove(config(), [a_resource("router-interface")])
    assert deletions(there) == ["remove_router_interface"]
    assert {"router", "subnet"} <= {resource.kind for resource in ours()}
    assert "router-interface" not in {resource.kind for resource in ours()}


def test_servers_are_waited_for_before_what_they_hold(there: OpenStack) -> None:
    server = a_resource("server")
    there.lingering[server.key] = 3
    provider.remove(config(), ours())
    path = f"/compute/v2.1/servers/{server.key}"
    last = max(number for number, line in enumerate(there.asked) if line == f"GET {path}")
    first = min(number for number, line in enumerate(there.asked) if line.startswith("DELETE /network"))
    assert last < first


def test_what_is_gone_already_is_fine(there: OpenStack) -> None:
    resources = ours()
    provider.remove(config(), resources)
    provider.remove(config(), resources)


def test_nothing_to_remove_needs_no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nowhere/clouds.yaml")
    provider.remove(config(), [])


def test_what_is_held_for_a_moment_is_tried_again(there: OpenStack) -> None:
    group = a_resource("security-group")
    there.refusals[f"DELETE /network/v2.0/security-groups/{group.key}"] = [409, 409]
    provider.remove(config(), [group])
    assert group not in ours()


def test_what_stays_held_is_told_after_all_else_is_removed(monkeypatch: pytest.MonkeyPatch, there: OpenStack) -> None:
    monkeypatch.setattr(removal, "FREE_SECONDS", 0.1)
    router = a_resource("router")
    there.refusals[f"DELETE /network/v2.0/routers/{router.key}"] = [409] * 1000
    with pytest.raises(OrchestratorError) as caught:
        provider.remove(config(), ours())
    assert f"`openstack router delete {router.key}` failed (HTTP 409)" in caught.value.message
    assert ours() == [router]


def test_a_server_that_does_not_go_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, there: OpenStack
) -> None:
    monkeypatch.setattr(removal, "GONE_SECONDS", 0.1)
    server = a_resource("server")
    there.lingering[server.key] = 1000
    with pytest.raises(OrchestratorError, match="still there after 0 s"):
        provider.remove(config(), [server])


def test_volumes_go_after_their_servers(there: OpenStack) -> None:
    there.add_volumes()
    volume = {"id": "v1", "name": "orchestrator-sdk-1a2b3c4d-head", "status": "available", "metadata": {}}
    there.listed("volumes").append(volume)
    there.refusals["DELETE /volume/v3/volumes/v1"] = [400]  # Cinder's word for one that is still attached
    there.lingering["v1"] = 2
    provider.remove(config(), ours())
    assert deletions(there)[:4] == ["servers", "servers", "volumes", "volumes"]
    assert ours() == []
