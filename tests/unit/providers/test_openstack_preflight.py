"""The pre-flight of the provider openstack: all findings at once, each with its remedy."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, findings, record
from tests.stand_ins.openstack_stand_in import OpenStack


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        yield openstack


def preflight(**keys: Any) -> list[tuple[str, str]]:
    """Return the findings for a cluster with a free name."""
    return findings(config("free", **keys))


def test_possible_cluster_has_no_findings() -> None:
    assert preflight() == []
    assert preflight(network="private", floating_ip=False, availability_zone="nova", head_flavor="m1.large") == []


def test_unreadable_extra_specs_are_not_needed(cloud: OpenStack) -> None:
    path = cloud.set_extra_specs("m1.tiny", {}, listed=False)
    cloud.refusals[f"GET {path}"] = [403]
    assert preflight() == []


def test_all_problems_are_found_at_once_with_alternatives() -> None:
    problems = preflight(
        image="debina-12",
        flavor="m1.tyny",
        head_flavor="m2.small",
        network="privat",
        external_network="publik",
        availability_zone="novae",
        volume_size=20,
    )
    flavors = "there are m1.large, m1.medium, m1.small, m1.tiny"
    networks = (
        "there are orchestrator-sdk, orchestrator-sdk-0badcafe, orchestrator-sdk-1a2b3c4d, "
        "orchestrator-sdk-1a2b3c4d-0badcafe, orchestrator-sdk-1a2b3c4d-late, orchestrator-sdk-1a2b3c4d-other, "
        "orchestrator-sdk-two-1a2b3c4d, private, public"
    )
    disk = "leave it out: servers then boot from the disk of their flavor"
    assert problems == [
        ("openstack.flavor: there is no flavor 'm1.tyny', did you mean m1.tiny?", flavors),
        ("openstack.head_flavor: there is no flavor 'm2.small', did you mean m1.small?", flavors),
        ("openstack.image: there is no image 'debina-12', did you mean debian-12?", "there is debian-12"),
        ("openstack.network: there is no network 'privat', did you mean private?", networks),
        ("openstack.external_network: there is no external network 'publik', did you mean public?", "there is public"),
        ("openstack.availability_zone: there is no zone 'novae', did you mean nova?", "there is nova"),
        ("openstack.volume_size: cloud 'here' has no volume service", disk),
    ]


def test_list_of_alternatives_is_shortened(cloud: OpenStack) -> None:
    flavors = cloud.listed("flavors")
    flavors += [{**flavors[0], "id": f"id-{number}", "name": f"g{number:02}"} for number in range(20)]
    ((_, hint),) = preflight(flavor="none such")
    assert hint.startswith("there are g00, g01, ")
    assert hint.endswith(" and 12 more")


def test_cluster_name_of_another_state_directory_is_refused() -> None:
    ((message, hint),) = findings(config("sdk"), record(config("sdk")))
    assert message.endswith(
        "of another state directory: network orchestrator-sdk-0badcafe, keypair orchestrator-sdk-0badcafe"
    )
    assert "`orchestrator teardown --orphans --cluster sdk` removes it" in hint


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status": "queued"}, "openstack.image: 'debian-12' is queued, not active"),
        ({"min_disk": 9}, "openstack.flavor: the disk of flavor 'm1.tiny': 8 GiB, image 'debian-12' needs 9"),
        ({"virtual_size": 8 * 2**30 + 1}, "openstack.flavor: the disk of flavor 'm1.tiny': 8 GiB, image .* needs 9"),
        ({"min_ram": 512}, "openstack.flavor: flavor 'm1.tiny' has 384 MiB of memory, image 'debian-12' needs 512"),
    ],
)
def test_image_must_be_usable_and_fit_the_flavor(cloud: OpenStack, changes: dict[str, Any], problem: str) -> None:
    cloud.listed("images")[0].update(changes)
    ((message, _),) = preflight()
    assert re.fullmatch(problem, message)


def test_flavor_without_disk_needs_a_volume_to_boot_from(cloud: OpenStack) -> None:
    next(flavor for flavor in cloud.listed("flavors") if flavor["name"] == "m1.tiny")["disk"] = 0
    message, hint = "openstack.flavor: flavor 'm1.tiny' has no disk", "openstack.volume_size"
    assert [(text, hint in remedy) for text, remedy in preflight()] == [(message, True)]
    cloud.add_volumes()
    assert preflight(volume_size=20) == []


@pytest.mark.parametrize(
    ("keys", "disk", "problem"),
    [
        ({}, 5, "openstack.flavor: the disk of flavor 'm1.tiny': 5 GiB, the trainer's image alone needs 6"),
        ({"gpus": 1}, 15, "openstack.flavor: the disk of flavor 'm1.tiny': 15 GiB, the trainer's image alone needs 16"),
        ({"gpus": 1}, 16, None),
    ],
)
def test_disk_must_hold_the_image_of_the_trainer(
    cloud: OpenStack, keys: dict[str, Any], disk: int, problem: str | None
) -> None:
    next(flavor for flavor in cloud.listed("flavors") if flavor["name"] == "m1.tiny")["disk"] = disk
    assert [message for message, _ in preflight(**keys)] == ([problem] if problem else [])


def test_head_without_gpus_needs_room_for_the_image_of_the_workers(cloud: OpenStack) -> None:
    sizes = {"m1.tiny": 16, "m1.small": 15}
    for flavor in cloud.listed("flavors"):
        flavor["disk"] = sizes.get(flavor["name"], flavor["disk"])
    [(message, _)] = preflight(gpus=1, head_flavor="m1.small")
    assert message == "openstack.flavor: the disk of flavor 'm1.small': 15 GiB, the trainer's image alone needs 16"


def test_volume_must_hold_the_image_and_have_an_existing_type(cloud: OpenStack) -> None:
    cloud.add_volumes()
    cloud.listed("images")[0]["min_disk"] = 30
    assert preflight(volume_size=20, volume_type="ssdd") == [
        ("openstack.volume_size: 20 GiB, image 'debian-12' needs 30", "choose a larger one, or another image"),
        ("openstack.volume_type: there is no type 'ssdd', did you mean ssd?", "there are hdd, ssd"),
    ]


def test_volume_type_without_a_size_is_refused() -> None:
    ((message, _),) = preflight(volume_type="ssd")
    assert message == "openstack.volume_type: 'ssd' without openstack.volume_size"


def test_duplicate_names_are_refused_with_their_ids(cloud: OpenStack) -> None:
    networks = cloud.listed("networks")
    private = next(network for network in networks if network["name"] == "private")
    networks.append({**private, "id": "second"})
    ((message, hint),) = preflight(network="private")
    assert message == "openstack.network: there are 2 networks 'private'"
    assert hint == f"name one by its id: {private['id']}, second"
    assert preflight(network=private["id"]) == []


def test_one_of_several_external_networks_must_be_named(cloud: OpenStack) -> None:
    networks = cloud.listed("networks")
    public = next(network for network in networks if network["name"] == "public")
    networks.append({**public, "id": "second", "name": "intern"})
    expected = ("openstack.external_network: there are several: intern, public", "name one of them")
    assert preflight() == [expected]
    assert preflight(external_network="intern") == []
    assert preflight(network="private", floating_ip=False) == []


def test_floating_ip_needs_an_external_network(cloud: OpenStack) -> None:
    networks = cloud.listed("networks")
    networks[:] = [network for network in networks if network["name"] != "public"]
    ((message, hint),) = preflight()
    assert message == "openstack.external_network: this project has access to none"
    assert "openstack.floating_ip: false" in hint
    assert preflight(network="private", floating_ip=False) == []


def test_existing_network_needs_addresses_and_a_router(cloud: OpenStack) -> None:
    cloud.listed("ports").clear()
    ((message, hint),) = preflight(network="private")
    assert message == "openstack.network: 'private' has no router that a floating IP could lead through"
    assert "floating_ip: false" in hint
    cloud.listed("subnets").clear()
    assert preflight(network="private")[0][0] == "openstack.network: 'private' has no IPv4 subnet"


def test_network_without_port_security_takes_no_nodes(cloud: OpenStack) -> None:
    private = next(network for network in cloud.listed("networks") if network["name"] == "private")
    private["port_security_enabled"] = False
    ((message, hint),) = preflight(network="private")
    assert message == (
        "openstack.network: 'private' has port security turned off: its nodes cannot have a security group"
    )
    assert f"`openstack network set --enable-port-security {private['id']}`" in hint
    del private["port_security_enabled"]  # a site without the extension
    assert preflight(network="private") == []


def test_external_network_accepts_nodes_without_floating_ips() -> None:
    ((message, _),) = preflight(network="public")
    assert message.startswith("openstack.network: 'public' is external")
    assert preflight(network="public", floating_ip=False) == []


def test_subnet_must_not_overlap_the_external_network() -> None:
    ((message, _),) = preflight(subnet="172.24.4.0/24")
    assert message == "openstack.subnet: 172.24.4.0/24 overlaps 172.24.4.0/24 of 'public'"


def test_flavor_that_reads_like_gpus_needs_their_number(cloud: OpenStack) -> None:
    cloud.listed("flavors")[0]["name"] = "g1.a100.large"
    ((message, hint),) = preflight(flavor="g1.a100.large")
    assert "'g1.a100.large' reads like one with GPUs" in message
    assert hint == "set openstack.gpus to their number, or to 0"
    assert preflight(flavor="g1.a100.large", gpus=0) == []


def test_name_of_the_external_network_must_be_unique_for_floating_ips(cloud: OpenStack) -> None:
    """Terraform's provider finds the pool of floating IPs by name, also if the network is named by its id."""
    networks = cloud.listed("networks")
    public = next(network for network in networks if network["name"] == "public")
    networks.append({**public, "id": "of-the-project", "router:external": False})
    ((message, _),) = preflight(external_network=public["id"])
    assert f"2 networks are named 'public': {public['id']}, of-the-project" in message


def test_community_image_is_used_by_its_id(cloud: OpenStack) -> None:
    """Lists of images leave community images out."""
    image = cloud.listed("images")[0]
    image["visibility"] = "community"
    ((message, _),) = preflight()
    assert "there is no image 'debian-12'" in message
    assert preflight(image=image["id"]) == []
    ((message, _),) = preflight(image="11111111-2222-3333-4444-555555555555")
    assert "there is no image" in message
