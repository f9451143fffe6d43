"""Resources that the provider openstack owns, in a project with similar resources of others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed
from orchestrator.providers import openstack as provider
from orchestrator.providers.openstack.api.cluster_resources import owner
from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, record
from tests.stand_ins.openstack_stand_in import OpenStack

OURS = "orchestrator-sdk-1a2b3c4d"


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        yield openstack


def test_survey_finds_tag_metadata_or_name_of_this_deployment() -> None:
    resources = [(str(resource), resource.usable) for resource in provider.list_resources(record(config()))]
    assert sorted(resources) == [
        ("floating-ip 172.24.4.145", True),
        (f"keypair {OURS}", True),
        (f"network {OURS}", True),
        (f"network {OURS}-late", True),  # without its tag yet
        (f"port {OURS}-head", True),
        (f"port {OURS}-worker-0", True),
        (f"router {OURS}", True),
        (f"router-interface {OURS}", True),  # without name and tag, known by its router
        (f"security-group {OURS}", True),
        ("server sdk-head", True),
        ("server sdk-worker-0", False),
        (f"server-group {OURS}", True),
        (f"subnet {OURS}", True),
    ]


def test_volumes_are_listed_if_the_cloud_has_them(cloud: OpenStack) -> None:
    cloud.add_volumes()
    cloud.listed("volumes").append({"id": "v1", "name": f"{OURS}-head", "metadata": {}})
    cloud.listed("volumes").append({"id": "v2", "name": "", "metadata": {"orchestrator": "sdk:1a2b3c4d"}})
    cloud.listed("volumes").append({"id": "v3", "name": "sdk-head", "metadata": {"orchestrator": "sdk-two:1a2b3c4d"}})
    assert [r.key for r in provider.list_resources(record(config())) if r.kind == "volume"] == ["v1", "v2"]


def test_resources_of_other_projects_are_ignored(cloud: OpenStack) -> None:
    for network in cloud.listed("networks"):
        network["project_id"] = network["tenant_id"] = "of another"
    assert [r for r in provider.list_resources(record(config())) if r.kind == "network"] == []


def test_unowned_resources_are_of_any_deployment_of_the_name() -> None:
    keys = {resource.key for resource in provider.list_resources(record(config()))}
    others = [str(resource) for resource in provider.unowned_resources(config()) if resource.key not in keys]
    assert sorted(others) == ["keypair orchestrator-sdk-0badcafe", "network orchestrator-sdk-0badcafe"]
    assert provider.unowned_resources(config("sd")) == []


@pytest.mark.parametrize(
    ("name", "tags", "whose"),
    [
        ("any", ["orchestrator:run:1a2b3c4d"], ("run", "1a2b3c4d")),
        ("any", ["orchestrator:run:1a2b3c4d", "of the site"], ("run", "1a2b3c4d")),
        ("any", ["orchestrator:run:1a2b3c4d", "orchestrator:run:0badcafe"], None),
        ("orchestrator-run-1a2b3c4d", ["orchestrator:other:1a2b3c4d"], ("other", "1a2b3c4d")),
        ("orchestrator-run-1a2b3c4d", [], ("run", "1a2b3c4d")),
        ("orchestrator-run-1a2b3c4d-worker-0", ["of the site"], ("run", "1a2b3c4d")),
        ("orchestrator-run-20261121-1a2b3c4d", [], ("run-20261121", "1a2b3c4d")),
        ("orchestrator-run-1a2b3c4", [], None),
        ("orchestrator-run", [], None),
        ("my-orchestrator-run-1a2b3c4d", [], None),
        ("orchestrator-run-1a2b3c4dd", [], None),
        ("any", ["orchestrator:run:1a2b3c4d:more"], None),
        ("", [], None),
    ],
)
def test_owner_is_read_from_the_tag_or_the_name(name: str, tags: list[str], whose: tuple[str, str] | None) -> None:
    assert owner(name, tags) == whose


def test_servers_in_error_are_lost_and_shut_off_ones_are_not(cloud: OpenStack) -> None:
    cloud.listed("servers")[-1]["status"] = "SHUTOFF"
    identities = {resource.name: resource.identity for resource in provider.list_resources(record(config()))}
    recorded = {
        "server[head]": identities["sdk-head"],
        "server[0]": identities["sdk-worker-0"],
        "network": identities[OURS],
    }
    assert provider.to_replace(record(config()), recorded) == ["server[0]"]


def test_deployment_is_searched_on_its_own_cloud(monkeypatch: pytest.MonkeyPatch, cloud: OpenStack) -> None:
    monkeypatch.setenv("OS_CLOUD", "elsewhere")
    assert provider.list_resources(record(config(cloud=None), cloud="here")) != []


@pytest.mark.parametrize(
    ("listing", "status"), [("network/v2.0/routers", 500), ("network/v2.0/networks", 403), ("network/v2.0/ports", 404)]
)
def test_failed_listing_is_an_error_and_no_empty_survey(cloud: OpenStack, listing: str, status: int) -> None:
    cloud.refusals[f"GET /{listing}"] = [status] * 2  # ports are listed twice at the same time
    with pytest.raises(CommandFailed, match="list resources of this project"):
        provider.list_resources(record(config()))
