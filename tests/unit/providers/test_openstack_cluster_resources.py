"""What the provider openstack knows as its own in a project that has look-alikes beside it."""

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
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.chosen(monkeypatch, tmp_path) as openstack:
        yield openstack


def test_a_survey_lists_what_has_the_tag_the_metadata_or_a_name_of_this_deployment_and_no_look_alike() -> None:
    resources = [(str(resource), resource.usable) for resource in provider.list_resources(record(config()))]
    assert sorted(resources) == [
        ("floating-ip 172.24.4.145", True),
        (f"keypair {OURS}", True),
        (f"network {OURS}", True),
        (f"network {OURS}-late", True),  # its tag was not set yet
        (f"port {OURS}-head", True),
        (f"port {OURS}-worker-0", True),
        (f"router {OURS}", True),
        (f"router-interface {OURS}", True),  # it has no name, nor a tag: it is the router's
        (f"security-group {OURS}", True),
        ("server sdk-head", True),
        ("server sdk-worker-0", False),
        (f"server-group {OURS}", True),
        (f"subnet {OURS}", True),
    ]


def test_volumes_are_known_where_the_cloud_has_such(there: OpenStack) -> None:
    there.add_volumes()
    there.listed("volumes").append({"id": "v1", "name": f"{OURS}-head", "metadata": {}})
    there.listed("volumes").append({"id": "v2", "name": "", "metadata": {"orchestrator": "sdk:1a2b3c4d"}})
    there.listed("volumes").append({"id": "v3", "name": "sdk-head", "metadata": {"orchestrator": "sdk-two:1a2b3c4d"}})
    assert [r.key for r in provider.list_resources(record(config())) if r.kind == "volume"] == ["v1", "v2"]


def test_what_other_projects_have_is_not_ours_though_an_administrator_sees_it(there: OpenStack) -> None:
    for network in there.listed("networks"):
        network["project_id"] = network["tenant_id"] = "of another"
    assert [r for r in provider.list_resources(record(config())) if r.kind == "network"] == []


def test_strangers_are_those_of_any_deployment_of_the_name() -> None:
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
def test_whose_something_is_stands_in_its_tag_or_else_in_its_name(
    name: str, tags: list[str], whose: tuple[str, str] | None
) -> None:
    assert owner(name, tags) == whose


def test_servers_in_error_are_lost_and_those_that_are_shut_off_are_not(there: OpenStack) -> None:
    there.listed("servers")[-1]["status"] = "SHUTOFF"
    identities = {resource.name: resource.identity for resource in provider.list_resources(record(config()))}
    recorded = {
        "server[head]": identities["sdk-head"],
        "server[0]": identities["sdk-worker-0"],
        "network": identities[OURS],
    }
    assert provider.to_replace(record(config()), recorded) == ["server[0]"]


def test_a_deployment_is_looked_for_on_the_cloud_that_it_was_made_on(
    monkeypatch: pytest.MonkeyPatch, there: OpenStack
) -> None:
    monkeypatch.setenv("OS_CLOUD", "elsewhere")
    assert provider.list_resources(record(config(cloud=None), cloud="here")) != []


@pytest.mark.parametrize(
    ("listing", "status"), [("network/v2.0/routers", 500), ("network/v2.0/networks", 403), ("network/v2.0/ports", 404)]
)
def test_a_listing_that_fails_is_an_error_and_not_an_empty_survey(there: OpenStack, listing: str, status: int) -> None:
    there.refusals[f"GET /{listing}"] = [status] * 2  # ports are listed twice, at the same time
    with pytest.raises(CommandFailed, match="list resources of this project"):
        provider.list_resources(record(config()))
