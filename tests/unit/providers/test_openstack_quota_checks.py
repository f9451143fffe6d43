"""Quotas of an OpenStack project: each that is too small, with the number of nodes that fit."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, findings, record
from tests.stand_ins.openstack_stand_in import OpenStack


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.selected_cloud(monkeypatch, tmp_path) as openstack:
        limits(openstack, totalInstancesUsed=0, totalCoresUsed=0, totalRAMUsed=0)
        yield openstack


def limits(cloud: OpenStack, **values: int) -> None:
    """Set Nova's limits; -1 is unlimited."""
    cloud.documents["/compute/v2.1/limits"]["limits"]["absolute"].update(values)


def network_limits(cloud: OpenStack, **values: tuple[int, int]) -> None:
    """Set limit and use of Neutron's quotas."""
    path = next(path for path in cloud.documents if "/quotas/" in path)
    for word, (limit, used) in values.items():
        cloud.documents[path]["quota"][word] = {"limit": limit, "used": used, "reserved": 0}


def preflight(nodes: int = 2, **keys: Any) -> list[tuple[str, str]]:
    return findings(config("free", nodes=nodes, **keys))


@pytest.fixture
def large(cloud: OpenStack) -> None:
    """Add a flavor of 64 GiB and 8 cores, and quota for many of them."""
    flavor = next(flavor for flavor in cloud.listed("flavors") if flavor["name"] == "m1.large")
    flavor |= {"ram": 64 * 1024, "vcpus": 8}
    limits(cloud, maxTotalInstances=-1, maxTotalCores=-1, maxTotalRAMSize=512 * 1024)


@pytest.mark.usefixtures("large")
def test_memory_is_in_gib_with_the_number_of_nodes_that_fit(cloud: OpenStack) -> None:
    limits(cloud, totalRAMUsed=128 * 1024)
    assert preflight(8, flavor="m1.large") == [
        (
            "6 of 8 nodes fit: RAM quota 512 GiB, in use 128, needed 512",
            "ask the site for more quota, or `--nodes 6`, or a smaller flavor",
        )
    ]


@pytest.mark.usefixtures("large")
def test_existing_nodes_count_as_used_and_as_existing(cloud: OpenStack) -> None:
    """Two servers exist; the replacement of one in ERROR takes its quota."""
    for key in ("networks", "keypairs"):
        cloud.listed(key)[:] = [item for item in cloud.listed(key) if "0badcafe" not in str(item)]
    limits(cloud, totalRAMUsed=384 * 1024)
    settings = config(nodes=6, flavor="m1.large")
    ((message, hint),) = findings(settings, record(settings))
    assert message == "4 of 6 nodes fit: RAM quota 512 GiB, in use 384, needed 256"
    assert "`--nodes 4`" in hint
    assert findings(config(nodes=2, flavor="m1.large"), record(settings)) == []


@pytest.mark.usefixtures("large")
def test_large_head_leaves_less_for_the_workers() -> None:
    assert preflight(8, flavor="m1.tiny", head_flavor="m1.large") == []


def test_each_quota_has_its_number_and_the_remedy_the_smallest(cloud: OpenStack) -> None:
    limits(cloud, maxTotalInstances=5, maxTotalCores=4)
    problems = preflight(6)
    assert [message for message, _ in problems] == [
        "5 of 6 nodes fit: instance quota 5, in use 0, needed 6",
        "4 of 6 nodes fit: core quota 4, in use 0, needed 6",
    ]
    assert all("`--nodes 4`" in hint for _, hint in problems)


def test_quota_for_no_node_names_no_smaller_cluster(cloud: OpenStack) -> None:
    limits(cloud, maxTotalInstances=5, totalInstancesUsed=5)
    assert preflight() == [
        ("0 of 2 nodes fit: instance quota 5, in use 5, needed 2", "ask the site for more quota"),
    ]


def test_quota_below_its_use_counts_as_used_up(cloud: OpenStack) -> None:
    limits(cloud, maxTotalInstances=1, totalInstancesUsed=5)
    assert [message for message, _ in preflight()] == ["0 of 2 nodes fit: instance quota 1, in use 5, needed 2"]


@pytest.mark.parametrize(
    ("word", "message", "remedy"),
    [
        ("floatingip", "floating IP", ", or set openstack.floating_ip: false"),
        ("security_group", "security group", ""),
        ("network", "network", ", or name an existing one with openstack.network"),
        ("router", "router", ", or name an existing one with openstack.network"),
        ("subnet", "subnet", ", or name an existing one with openstack.network"),
    ],
)
def test_resources_per_cluster_are_needed_for_any_node(cloud: OpenStack, word: str, message: str, remedy: str) -> None:
    network_limits(cloud, **{word: (3, 3)})
    assert preflight() == [
        (f"0 of 2 nodes fit: {message} quota 3, in use 3, needed 1", f"ask the site for more quota{remedy}"),
    ]
    network_limits(cloud, **{word: (4, 3)})
    assert preflight() == []
    network_limits(cloud, **{word: (-1, 3)})
    assert preflight() == []


def test_security_group_has_a_rule_per_allowed_network(cloud: OpenStack) -> None:
    network_limits(cloud, security_group_rule=(100, 95))
    assert preflight() == []
    networks = [IPv4Network(text) for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
    settings = config("free").model_copy(update={"allow_from": networks})
    assert findings(settings) == [
        ("0 of 2 nodes fit: security group rule quota 100, in use 95, needed 7", "ask the site for more quota"),
    ]


def test_unrequested_resources_need_no_quota(cloud: OpenStack) -> None:
    network_limits(cloud, **dict.fromkeys(("floatingip", "network", "subnet", "router"), (0, 0)))
    assert preflight(network="private", floating_ip=False) == []


def test_new_network_has_two_ports_in_addition_to_the_nodes(cloud: OpenStack) -> None:
    network_limits(cloud, port=(4, 0))
    assert preflight(2) == []
    assert [message for message, _ in preflight(4)] == ["2 of 4 nodes fit: port quota 4, in use 0, needed 6"]
    assert preflight(4, network="private") == []


def test_existing_ports_without_a_server_are_reused(cloud: OpenStack) -> None:
    """An earlier deploy ended before it created servers."""
    for key in ("networks", "keypairs"):
        cloud.listed(key)[:] = [item for item in cloud.listed(key) if "0badcafe" not in str(item)]
    cloud.listed("servers").clear()
    own_ports = [port for port in cloud.listed("ports") if "1a2b3c4d" in port["name"]]
    network_limits(cloud, port=(len(own_ports), len(own_ports)))
    settings = config(nodes=len(own_ports))
    assert findings(settings, record(settings)) == []
    more = config(nodes=len(own_ports) + 1)
    assert [message.partition(":")[2] for message, _ in findings(more, record(more))] == [
        f" port quota {len(own_ports)}, in use {len(own_ports)}, needed 1"
    ]


def test_key_pairs_are_counted_because_nova_does_not(cloud: OpenStack) -> None:
    limits(cloud, maxTotalKeypairs=3)
    assert [message for message, _ in preflight()] == ["0 of 2 nodes fit: key pair quota 3, in use 3, needed 1"]


def test_server_group_has_quotas_for_groups_and_members(cloud: OpenStack) -> None:
    limits(cloud, maxServerGroups=1, totalServerGroupsUsed=1, maxServerGroupMembers=3, maxTotalInstances=-1)
    assert preflight(4) == []
    members, group = preflight(4, server_group="anti-affinity")
    assert members[0] == "3 of 4 nodes fit: server group member quota 3, in use 0, needed 4"
    assert group[0] == "0 of 4 nodes fit: server group quota 1, in use 1, needed 1"
    assert "leave openstack.server_group out" in group[1]


def test_boot_volumes_have_quotas(cloud: OpenStack) -> None:
    cloud.add_volumes()
    cloud.documents["/volume/v3/limits"]["limits"]["absolute"] |= {"totalVolumesUsed": 9, "totalGigabytesUsed": 900}
    assert [message for message, _ in preflight(3, volume_size=40)] == [
        "1 of 3 nodes fit: volume quota 10, in use 9, needed 3",
        "2 of 3 nodes fit: volume storage quota 1000 GiB, in use 900, needed 120",
    ]


def test_larger_volumes_of_existing_nodes_have_a_quota(cloud: OpenStack) -> None:
    cloud.listed("networks")[:] = [item for item in cloud.listed("networks") if "0badcafe" not in str(item)]
    cloud.listed("keypairs")[:] = [item for item in cloud.listed("keypairs") if "0badcafe" not in str(item)]
    cloud.add_volumes()
    for part in ("head", "worker-0"):
        name = f"orchestrator-sdk-1a2b3c4d-{part}"
        cloud.listed("volumes").append({"id": part, "name": name, "size": 40, "metadata": {}})
    cloud.documents["/volume/v3/limits"]["limits"]["absolute"] |= {"totalGigabytesUsed": 900}
    before = record(config(volume_size=40), volume_size=40)
    assert findings(config(volume_size=90), before) == []
    assert findings(config(volume_size=91), before) == [
        (
            "openstack.volume_size: the existing nodes cannot grow: volume storage quota 1000 GiB, in use 900, "
            "needed 102",
            "ask the site for more quota, or a smaller one",
        )
    ]


def test_larger_flavor_of_existing_nodes_has_quotas(cloud: OpenStack) -> None:
    cloud.listed("networks")[:] = [item for item in cloud.listed("networks") if "0badcafe" not in str(item)]
    cloud.listed("keypairs")[:] = [item for item in cloud.listed("keypairs") if "0badcafe" not in str(item)]
    tiny, large = (
        next(flavor for flavor in cloud.listed("flavors") if flavor["name"] == name) for name in ("m1.tiny", "m1.large")
    )
    large |= {"vcpus": 8, "disk": tiny["disk"]}
    before = record(config(), head={"flavor": tiny["id"]}, worker={"flavor": tiny["id"]})
    limits(cloud, maxTotalCores=20, totalCoresUsed=6, maxTotalRAMSize=-1)
    assert findings(config(flavor="m1.large"), before) == []
    limits(cloud, totalCoresUsed=7)
    assert findings(config(flavor="m1.large"), before) == [
        (
            "openstack.flavor: the existing nodes cannot grow: core quota 20, in use 7, needed 14",
            "ask the site for more quota, or a smaller one",
        )
    ]
    tried = before.model_copy(update={"variables": {"openstack": {"head": {"flavor": large["id"]}}}})
    assert findings(config(flavor="m1.large"), tried) == []  # the nodes may have it already


@pytest.mark.parametrize("status", [403, 404])
def test_unreadable_quotas_are_no_obstacle(cloud: OpenStack, status: int) -> None:
    path = next(path for path in cloud.documents if "/quotas/" in path)
    cloud.refusals[f"GET {path}"] = [status]
    network_limits(cloud, floatingip=(0, 0))
    assert preflight() == []
