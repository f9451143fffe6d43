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


def add_volumes(cloud: OpenStack, **sizes: int) -> None:
    cloud.add_volumes()
    for part, size in sizes.items():
        name = f"orchestrator-sdk-1a2b3c4d-{part.replace('_', '-')}"
        cloud.listed("volumes").append({"id": part, "name": name, "size": size, "metadata": {}})


def test_smaller_volume_size_of_deployed_nodes_is_refused_with_both_sizes(cloud: OpenStack) -> None:
    add_volumes(cloud, head=40, worker_0=40, worker_1=80)  # worker 1 leaves
    before = record(config(volume_size=40), image=DEBIAN, volume_size=40)
    ((message, hint),) = findings(config(volume_size=20), before)
    assert message == "openstack.volume_size: 20 GiB asked for, the nodes have volumes of 40, and none can shrink"
    assert hint == "ask for 40 or more, or `orchestrator teardown --cluster sdk` first"
    assert findings(config(volume_size=40), before) == []
    assert findings(config(volume_size=50), before) == []


def test_smaller_volume_size_is_possible_if_a_failed_deploy_never_extended_the_volumes(cloud: OpenStack) -> None:
    add_volumes(cloud, head=20, worker_0=20)
    assert findings(config(volume_size=20), record(config(volume_size=40), image=DEBIAN, volume_size=40)) == []


def test_smaller_volume_size_is_possible_with_another_image_which_replaces_the_nodes(cloud: OpenStack) -> None:
    add_volumes(cloud, head=40, worker_0=40)
    other = {**cloud.listed("images")[0], "id": "another", "name": "another"}
    cloud.listed("images").append(other)
    before = record(config(volume_size=40), image=DEBIAN, volume_size=40)
    assert findings(config(volume_size=20, image="another"), before) == []


def test_flavor_with_a_smaller_disk_is_refused_for_a_deployed_head(cloud: OpenStack) -> None:
    large, tiny = (
        next(flavor for flavor in cloud.listed("flavors") if flavor["name"] == name) for name in ("m1.large", "m1.tiny")
    )
    tiny["disk"], large["disk"] = 20, 80
    before = record(config(flavor="m1.large"), image=DEBIAN, head={"flavor": large["id"]})
    ((message, hint),) = findings(config(), before)
    assert message == ("openstack.flavor: 'm1.tiny' has a disk of 20 GiB, the head has one of 80, and it cannot shrink")
    assert hint.startswith("set openstack.head_flavor: m1.large, or ")
    assert findings(config(head_flavor="m1.large"), before) == []
