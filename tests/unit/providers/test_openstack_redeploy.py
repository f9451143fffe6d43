"""The pre-flight of a repeated deploy on OpenStack."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, findings, record
from tests.stand_ins.openstack_stand_in import OpenStack

DEBIAN = "3f331077-e114-4d9b-b2ab-abb4c690c2ca"


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    """Yield the project without the resources of another deployment with the same name."""
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        for key in ("networks", "keypairs"):
            openstack.listed(key)[:] = [item for item in openstack.listed(key) if "0badcafe" not in str(item)]
        yield openstack


def test_deployed_settings_cannot_change() -> None:
    assert findings(config(), record(config(), cloud="here", subnet="10.77.0.0/24")) == []
    messages = findings(config(subnet="10.78.0.0/24"), record(config(), cloud="there", subnet="10.77.0.0/24"))
    assert [message for message, _ in messages] == [
        "openstack.cloud: here asked for, the cluster is deployed in there",
        "openstack.subnet: 10.78.0.0/24 asked for, the cluster's network is made with 10.77.0.0/24",
    ]


def test_deploy_with_credentials_for_another_region_is_refused() -> None:
    ((message, _),) = findings(config(), record(config(), cloud="here", region="RegionTwo"))
    assert message == "cluster 'sdk' is in region RegionTwo, the credentials of cloud 'here' are for RegionOne"


def test_new_nodes_are_refused_if_the_image_of_old_ones_is_gone() -> None:
    before = record(config(), image="deleted")
    assert findings(config(nodes=2), before) == []
    ((message, hint),) = findings(config(nodes=3), before)
    assert "is gone: new nodes would need another image, and all nodes would be replaced" in message
    assert "teardown" in hint


def test_deactivated_image_matters_only_for_new_nodes(cloud: OpenStack) -> None:
    cloud.listed("images")[0]["status"] = "deactivated"
    before = record(config(), image=DEBIAN)
    assert findings(config(nodes=2), before) == []
    assert [message for message, _ in findings(config(nodes=3), before)] == [
        "openstack.image: 'debian-12' is deactivated, not active"
    ]


def test_server_in_an_unusable_state_is_named_with_the_remedy(cloud: OpenStack) -> None:
    head = next(server for server in cloud.listed("servers") if server["name"] == "sdk-head")
    head["status"] = "SUSPENDED"
    ((message, hint),) = findings(config(), record(config()))
    assert message.startswith("server sdk-head is SUSPENDED")
    assert f"`openstack server resume {head['id']}`" in hint
