"""The pre-flight of a deploy over what is there already, on OpenStack."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, findings, record
from tests.stand_ins.openstack_stand_in import OpenStack

DEBIAN = "3f331077-e114-4d9b-b2ab-abb4c690c2ca"


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    """The project without what another deployment of the same name has there."""
    with openstack_cases.chosen(monkeypatch, tmp_path) as openstack:
        for key in ("networks", "keypairs"):
            openstack.listed(key)[:] = [thing for thing in openstack.listed(key) if "0badcafe" not in str(thing)]
        yield openstack


def test_what_a_deployment_was_told_before_cannot_change_under_it() -> None:
    assert findings(config(), record(config(), cloud="here", subnet="10.77.0.0/24")) == []
    messages = findings(config(subnet="10.78.0.0/24"), record(config(), cloud="there", subnet="10.77.0.0/24"))
    assert [message for message, _ in messages] == [
        "openstack.cloud: here asked for, the cluster is deployed in there",
        "openstack.subnet: 10.78.0.0/24 asked for, the cluster's network is made with 10.77.0.0/24",
    ]


def test_new_nodes_are_not_made_beside_old_ones_whose_image_is_gone() -> None:
    before = record(config(), image="deleted")
    assert findings(config(nodes=2), before) == []
    ((message, hint),) = findings(config(nodes=3), before)
    assert "is gone: new nodes would need another image, and all nodes would be replaced" in message
    assert "teardown" in hint


def test_a_deactivated_image_matters_to_new_nodes_alone(there: OpenStack) -> None:
    there.listed("images")[0]["status"] = "deactivated"
    before = record(config(), image=DEBIAN)
    assert findings(config(nodes=2), before) == []
    assert [message for message, _ in findings(config(nodes=3), before)] == [
        "openstack.image: 'debian-12' is deactivated, not active"
    ]


def test_a_server_in_a_state_that_terraform_refuses_is_named_with_the_way_out(there: OpenStack) -> None:
    head = next(server for server in there.listed("servers") if server["name"] == "sdk-head")
    head["status"] = "SUSPENDED"
    ((message, hint),) = findings(config(), record(config()))
    assert message.startswith("server sdk-head is SUSPENDED")
    assert f"`openstack server resume {head['id']}`" in hint
