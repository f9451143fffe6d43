"""The provider `openstack`: Terraform's variables, from recorded answers."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.gpu_section import Gpu
from orchestrator.errors import PreflightError
from orchestrator.gpu_compatibility import resolve
from orchestrator.providers import caller_address
from orchestrator.providers import openstack as provider
from orchestrator.providers.openstack.gpus import gpus, model
from tests.stand_ins import echo_stand_in, openstack_cases
from tests.stand_ins.openstack_cases import config, record
from tests.stand_ins.openstack_stand_in import OpenStack

PROJECT = "f4fe7336403c409888e216b5395147af"
TINY, SMALL = "6a0cf8c8-4234-48bc-9ab2-6470114210be", "fddc425f-fe0e-4b1e-9846-38986e7d1d58"
DEBIAN, PUBLIC = "3f331077-e114-4d9b-b2ab-abb4c690c2ca", "c7f46cf1-eefc-447b-9aab-68ee00b91237"


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        yield openstack


def add_newer_image(cloud: OpenStack, **changes: Any) -> None:
    """Add a second image of the same name."""
    images = cloud.listed("images")
    images.append({**copy.deepcopy(images[0]), "id": "newer", "created_at": "2999-01-01T00:00:00Z", **changes})


def test_names_become_ids_and_flavors_their_resources() -> None:
    settings = config(head_flavor="m1.small", volume_type=None, dns=["9.9.9.9"])
    assert provider.variables(settings, record(settings)) == {
        "cloud": "here",
        "project": PROJECT,
        "region": "RegionOne",
        "interface": "public",
        "cacert": None,
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


def test_existing_network_needs_no_router_without_floating_ip() -> None:
    settings = config(network="private", floating_ip=False)
    variables = provider.variables(settings, record(settings))
    assert (variables["network"], variables["external_network"]) == ("af9a253b-c810-421c-98d5-0e8dee717b1c", None)


def test_newest_usable_image_of_a_name_is_used(cloud: OpenStack) -> None:
    settings = config()
    add_newer_image(cloud)
    assert provider.variables(settings, record(settings))["image"] == "newer"
    cloud.listed("images")[1]["status"] = "deactivated"
    assert provider.variables(settings, record(settings))["image"] == DEBIAN


def test_newer_image_of_a_name_does_not_replace_nodes(cloud: OpenStack) -> None:
    settings = config()
    add_newer_image(cloud)
    assert provider.variables(settings, record(settings, image=DEBIAN))["image"] == DEBIAN
    cloud.listed("images")[0]["name"] = "debian-12-old"  # some sites rename old images
    assert provider.variables(settings, record(settings, image=DEBIAN))["image"] == DEBIAN


def test_other_image_name_is_another_image(cloud: OpenStack) -> None:
    add_newer_image(cloud, name="debian-13")
    assert provider.variables(config(image="debian-13"), record(config(), image=DEBIAN))["image"] == "newer"


def test_nodes_stay_if_their_image_was_removed(cloud: OpenStack) -> None:
    settings = config()
    assert provider.variables(settings, record(settings, image="deleted"))["image"] == "deleted"
    cloud.listed("servers").clear()
    assert provider.variables(settings, record(settings, image="deleted"))["image"] == DEBIAN


def test_image_may_be_given_by_its_id() -> None:
    settings = config(image=DEBIAN)
    assert provider.variables(settings, record(settings))["image"] == DEBIAN


@pytest.mark.parametrize(
    "call", [provider.list_resources, provider.failure_reasons, lambda r: provider.to_replace(r, {})]
)
@pytest.mark.parametrize(("key", "other"), [("project", "b" * 32), ("region", "RegionTwo")])
def test_credentials_for_another_place_do_not_make_a_cluster_look_removed(call: Any, key: str, other: str) -> None:
    settings = config()
    here = {"project": PROJECT, "region": "RegionOne"}
    assert call(record(settings, **here)) is not None
    assert call(record(settings)) is not None  # of a deployment that did not record them
    with pytest.raises(
        PreflightError, match=f"cluster 'sdk' is in {key} {other}, the credentials of cloud 'here' are"
    ) as e:
        call(record(settings, **{**here, key: other}))
    assert "OS_CLOUD" in e.value.hint


def test_external_network_stays_if_a_second_one_appears(cloud: OpenStack) -> None:
    settings, networks = config(), cloud.listed("networks")
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


@pytest.mark.parametrize(
    ("properties", "flavor", "name"),
    [
        ({"pci_passthrough:alias": "nvme:1,a100:2"}, "g.large", "a100"),
        ({"pci_passthrough:alias": "gpu_t4:1"}, "g.large", "gpu_t4"),
        ({"resources:PGPU": "1"}, "h100.large", "h100.large"),
        ({"resources:VGPU": "1"}, "gpu.small", "gpu.small-vgpu"),
        ({"resources1:VGPU": "1"}, "a100-4c", "a100-4c-vgpu"),
    ],
)
def test_virtual_gpus_are_named_so(properties: dict[str, str], flavor: str, name: str) -> None:
    assert model(properties, flavor, 4) == name


@pytest.mark.parametrize(
    ("flavor", "properties", "virtual"),
    [
        ("gpu-a100-8c", {}, False),
        ("gpu-a100-8C", {}, False),
        ("gpu-a100-16c", {"resources:PGPU": "1"}, False),
        ("gpu-a100-8c", {"resources:VGPU": "1"}, True),
        ("a100-10c", {}, True),  # NVIDIA's type of a vGPU
    ],
)
def test_cores_in_the_name_of_a_flavor_make_no_vgpus(
    cloud: OpenStack, flavor: str, properties: dict[str, str], virtual: bool
) -> None:
    m1 = next(f for f in cloud.listed("flavors") if f["name"] == "m1.tiny")
    m1 |= {"name": flavor, "vcpus": 8}
    cloud.set_extra_specs(flavor, properties)
    name, _ = provider.gpu_and_image(config(flavor=flavor, gpus=1), None)
    if virtual:
        with pytest.raises(PreflightError, match="licensed vGPU"):
            resolve(name, Gpu())
    else:
        assert resolve(name, Gpu()).driver != "vgpu"


def test_configured_gpus_apply_to_the_flavor_not_the_heads() -> None:
    settings = config(gpus=4, head_flavor="m1.small")
    variables = provider.variables(settings, record(settings))
    assert (variables["head"]["gpus"], variables["worker"]["gpus"]) == (0, 4)
    both = provider.variables(config(gpus=4), record(settings))
    assert (both["head"]["gpus"], both["worker"]["gpus"]) == (4, 4)
    without_driver = config(gpus=4).model_copy(update={"gpu": Gpu(driver="none")})
    assert provider.variables(without_driver, record(settings))["worker"]["gpus"] == 0


def test_priced_resources_are_counted_by_flavor() -> None:
    assert provider.priced(config(nodes=4)) == {"m1.tiny": 4}
    assert provider.priced(config(nodes=4, head_flavor="m1.small")) == {"m1.small": 1, "m1.tiny": 3}
    assert provider.priced(config(nodes=1, head_flavor="m1.small")) == {"m1.small": 1}


def test_callers_address_is_found_on_the_route_to_the_nodes(cloud: OpenStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both addresses are of this machine, so the external service is used."""
    for subnet in cloud.listed("subnets"):
        subnet["cidr"] = "127.0.1.0/24"
    with echo_stand_in.listening("203.0.113.7") as address:
        monkeypatch.setattr(caller_address, "ECHO", address)
        assert provider.default_allow_from(config(), None) == ["203.0.113.7/32"]
