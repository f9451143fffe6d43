"""The pre-flight of the provider openstack: everything that is amiss at once, each with its remedy."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, findings, record
from tests.stand_ins.openstack_stand_in import OpenStack


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.chosen(monkeypatch, tmp_path) as openstack:
        yield openstack


def asked(**keys: Any) -> list[tuple[str, str]]:
    """What is found where a cluster of a name that is free is asked for."""
    return findings(config("free", **keys))


def test_a_cluster_that_the_cloud_can_make_is_granted() -> None:
    assert asked() == []
    assert asked(network="private", floating_ip=False, availability_zone="nova", head_flavor="m1.large") == []


def test_extra_specs_that_the_account_may_not_read_are_not_needed(there: OpenStack) -> None:
    path = there.set_extra_specs("m1.tiny", {}, listed=False)
    there.refusals[f"GET {path}"] = [403]
    assert asked() == []


def test_all_that_is_amiss_is_found_at_once_with_what_there_is_instead() -> None:
    problems = asked(
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


def test_of_many_names_a_line_carries_some(there: OpenStack) -> None:
    flavors = there.listed("flavors")
    flavors += [{**flavors[0], "id": f"id-{number}", "name": f"g{number:02}"} for number in range(20)]
    ((_, hint),) = asked(flavor="none such")
    assert hint.startswith("there are g00, g01, ")
    assert hint.endswith(" and 12 more")


def test_a_cluster_of_this_name_of_another_state_directory_is_left_alone() -> None:
    ((message, hint),) = findings(config("sdk"), record(config("sdk")))
    assert message.endswith(
        "of another state directory: network orchestrator-sdk-0badcafe, keypair orchestrator-sdk-0badcafe"
    )
    assert "`orchestrator teardown --orphans --cluster sdk` removes it" in hint


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status": "queued"}, "openstack.image: 'debian-12' is queued, not active"),
        ({"min_disk": 4}, "openstack.flavor: the disk of flavor 'm1.tiny': 3 GiB, image 'debian-12' needs 4"),
        ({"virtual_size": 3 * 2**30 + 1}, "openstack.flavor: the disk of flavor 'm1.tiny': 3 GiB, image .* needs 4"),
        ({"min_ram": 512}, "openstack.flavor: flavor 'm1.tiny' has 384 MiB of memory, image 'debian-12' needs 512"),
    ],
)
def test_an_image_must_be_usable_and_fit_the_flavor(there: OpenStack, changes: dict[str, Any], problem: str) -> None:
    there.listed("images")[0].update(changes)
    ((message, _),) = asked()
    assert re.fullmatch(problem, message)


def test_a_flavor_without_disk_needs_a_volume_to_boot_from(there: OpenStack) -> None:
    next(flavor for flavor in there.listed("flavors") if flavor["name"] == "m1.tiny")["disk"] = 0
    message, hint = "openstack.flavor: flavor 'm1.tiny' has no disk", "openstack.volume_size"
    assert [(text, hint in remedy) for text, remedy in asked()] == [(message, True)]
    there.add_volumes()
    assert asked(volume_size=20) == []


def test_a_volume_must_hold_the_image_and_be_of_a_type_that_there_is(there: OpenStack) -> None:
    there.add_volumes()
    there.listed("images")[0]["min_disk"] = 30
    assert asked(volume_size=20, volume_type="ssdd") == [
        ("openstack.volume_size: 20 GiB, image 'debian-12' needs 30", "choose a larger one, or another image"),
        ("openstack.volume_type: there is no type 'ssdd', did you mean ssd?", "there are hdd, ssd"),
    ]


def test_a_type_without_a_size_would_not_count() -> None:
    ((message, _),) = asked(volume_type="ssd")
    assert message == "openstack.volume_type: 'ssd' without openstack.volume_size"


def test_two_things_of_one_name_are_told_apart_by_their_ids(there: OpenStack) -> None:
    networks = there.listed("networks")
    private = next(network for network in networks if network["name"] == "private")
    networks.append({**private, "id": "second"})
    ((message, hint),) = asked(network="private")
    assert message == "openstack.network: there are 2 networks 'private'"
    assert hint == f"name one by its id: {private['id']}, second"
    assert asked(network=private["id"]) == []


def test_of_several_external_networks_one_must_be_named(there: OpenStack) -> None:
    networks = there.listed("networks")
    public = next(network for network in networks if network["name"] == "public")
    networks.append({**public, "id": "second", "name": "intern"})
    expected = ("openstack.external_network: there are several: intern, public", "name one of them")
    assert asked() == [expected]
    assert asked(external_network="intern") == []
    assert asked(network="private", floating_ip=False) == []


def test_without_any_external_network_there_is_no_floating_ip(there: OpenStack) -> None:
    networks = there.listed("networks")
    networks[:] = [network for network in networks if network["name"] != "public"]
    ((message, hint),) = asked()
    assert message == "openstack.external_network: this project has access to none"
    assert "openstack.floating_ip: false" in hint
    assert asked(network="private", floating_ip=False) == []


def test_an_existing_network_must_have_addresses_and_a_way_for_floating_ips(there: OpenStack) -> None:
    there.listed("ports").clear()
    ((message, hint),) = asked(network="private")
    assert message == "openstack.network: 'private' has no router that a floating IP could lead through"
    assert "floating_ip: false" in hint
    there.listed("subnets").clear()
    assert asked(network="private")[0][0] == "openstack.network: 'private' has no IPv4 subnet"


def test_an_external_network_takes_nodes_but_no_floating_ips() -> None:
    ((message, _),) = asked(network="public")
    assert message.startswith("openstack.network: 'public' is external")
    assert asked(network="public", floating_ip=False) == []


def test_the_nodes_addresses_must_not_be_those_outside() -> None:
    ((message, _),) = asked(subnet="172.24.4.0/24")
    assert message == "openstack.subnet: 172.24.4.0/24 overlaps 172.24.4.0/24 of 'public'"
