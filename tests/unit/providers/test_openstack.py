"""The provider `openstack`: what it tells Terraform, against recorded answers."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.providers import caller_address
from orchestrator.providers import openstack as provider
from orchestrator.providers.openstack.gpus import gpus
from tests.stand_ins import echo_stand_in, openstack_cases
from tests.stand_ins.openstack_cases import config, record
from tests.stand_ins.openstack_stand_in import OpenStack

TINY, SMALL = "6a0cf8c8-4234-48bc-9ab2-6470114210be", "fddc425f-fe0e-4b1e-9846-38986e7d1d58"
DEBIAN, PUBLIC = "3f331077-e114-4d9b-b2ab-abb4c690c2ca", "c7f46cf1-eefc-447b-9aab-68ee00b91237"


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.chosen(monkeypatch, tmp_path) as openstack:
        yield openstack


def newer(there: OpenStack, **changes: Any) -> None:
    """A second image of the same name."""
    images = there.listed("images")
    images.append({**copy.deepcopy(images[0]), "id": "newer", "created_at": "2999-01-01T00:00:00Z", **changes})


def test_names_become_ids_and_flavors_what_they_have() -> None:
    settings = config(head_flavor="m1.small", volume_type=None, dns=["9.9.9.9"])
    assert provider.variables(settings, record(settings)) == {
        "cloud": "here",
        "image": DEBIAN,
        "head": {"flavor": SMALL, "cpus": 1, "gpus": 0},
        "worker": {"flavor": TINY, "cpus": 1, "gpus": 0},
        "volume_size": None,
        "volume_type": None,
        "network": None,
        "subnet": "10.77.0.0/24",
        "external_network": PUBLIC,
        "external_network_name": "public",
        "floating_ip": True,
        "dns": ["9.9.9.9"],
        "availability_zone": None,
        "server_group": None,
        "config_drive": False,
    }


def test_an_existing_network_is_given_by_its_id_and_needs_no_way_out_without_floating_ip() -> None:
    settings = config(network="private", floating_ip=False)
    variables = provider.variables(settings, record(settings))
    assert (variables["network"], variables["external_network"]) == ("af9a253b-c810-421c-98d5-0e8dee717b1c", None)


def test_the_newest_image_of_a_name_is_taken_if_it_can_be_used(there: OpenStack) -> None:
    settings = config()
    newer(there)
    assert provider.variables(settings, record(settings))["image"] == "newer"
    there.listed("images")[1]["status"] = "deactivated"
    assert provider.variables(settings, record(settings))["image"] == DEBIAN


def test_a_newer_image_of_the_same_name_does_not_replace_nodes_that_are_there(there: OpenStack) -> None:
    settings = config()
    newer(there)
    assert provider.variables(settings, record(settings, image=DEBIAN))["image"] == DEBIAN
    there.listed("images")[0]["name"] = "debian-12-old"  # as sites rename them
    assert provider.variables(settings, record(settings, image=DEBIAN))["image"] == DEBIAN


def test_another_name_of_the_image_is_another_image(there: OpenStack) -> None:
    newer(there, name="debian-13")
    assert provider.variables(config(image="debian-13"), record(config(), image=DEBIAN))["image"] == "newer"


def test_nodes_stay_as_they_are_when_the_image_they_were_made_of_is_gone(there: OpenStack) -> None:
    settings = config()
    assert provider.variables(settings, record(settings, image="deleted"))["image"] == "deleted"
    there.listed("servers").clear()
    assert provider.variables(settings, record(settings, image="deleted"))["image"] == DEBIAN


def test_an_image_may_be_given_by_its_id() -> None:
    settings = config(image=DEBIAN)
    assert provider.variables(settings, record(settings))["image"] == DEBIAN


def test_the_external_network_of_before_stays_when_a_second_one_appears(there: OpenStack) -> None:
    settings, networks = config(), there.listed("networks")
    public = next(network for network in networks if network["id"] == PUBLIC)
    networks.append({**public, "id": "second", "name": "second"})
    assert provider.variables(settings, record(settings, external_network=PUBLIC))["external_network"] == PUBLIC


@pytest.mark.parametrize(
    ("properties", "count"),
    [
        ({}, 0),
        ({"hw_rng:allowed": "True"}, 0),
        ({"pci_passthrough:alias": "a100:2"}, 2),
        ({"pci_passthrough:alias": "nvidia-h100-80g:8,mlx5-nic:8"}, 8),
        ({"pci_passthrough:alias": "gpu_t4:1, l40s:1"}, 2),
        ({"pci_passthrough:alias": "nvme:4"}, 0),
        ({"pci_passthrough:alias": "a100:many"}, 0),
        ({"resources:VGPU": "1"}, 1),
        ({"resources:PGPU": "4", "resources1:VGPU": "1"}, 5),
        ({"resources:CUSTOM_FPGA": "1"}, 0),
    ],
)
def test_gpus_are_counted_from_the_properties_of_a_flavor(properties: dict[str, str], count: int) -> None:
    assert gpus(properties) == count


def test_gpus_that_the_user_tells_are_those_of_the_flavor_and_not_of_another_one_of_the_head() -> None:
    settings = config(gpus=4, head_flavor="m1.small")
    variables = provider.variables(settings, record(settings))
    assert (variables["head"]["gpus"], variables["worker"]["gpus"]) == (0, 4)
    both = provider.variables(config(gpus=4), record(settings))
    assert (both["head"]["gpus"], both["worker"]["gpus"]) == (4, 4)


def test_what_has_a_price_is_counted_by_flavor() -> None:
    assert provider.priced(config(nodes=4)) == {"m1.tiny": 4}
    assert provider.priced(config(nodes=4, head_flavor="m1.small")) == {"m1.small": 1, "m1.tiny": 3}
    assert provider.priced(config(nodes=1, head_flavor="m1.small")) == {"m1.small": 1}


def test_the_caller_s_address_is_looked_for_on_the_way_to_the_nodes(
    there: OpenStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are this machine here, so that the world outside is asked."""
    for subnet in there.listed("subnets"):
        subnet["cidr"] = "127.0.1.0/24"
    with echo_stand_in.listening("203.0.113.7") as address:
        monkeypatch.setattr(caller_address, "ECHO", address)
        assert provider.default_allow_from(config(), None) == ["203.0.113.7/32"]
