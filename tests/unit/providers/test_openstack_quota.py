"""Quotas of an OpenStack project: each that is too small, with how many nodes fit."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins import openstack_cases
from tests.stand_ins.openstack_cases import config, findings, record
from tests.stand_ins.openstack_stand_in import OpenStack


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenStack]:
    with openstack_cases.chosen(monkeypatch, tmp_path) as openstack:
        limits(openstack, totalInstancesUsed=0, totalCoresUsed=0, totalRAMUsed=0)
        yield openstack


def limits(there: OpenStack, **values: int) -> None:
    """In Nova's words; -1 is without limit."""
    there.documents["/compute/v2.1/limits"]["limits"]["absolute"].update(values)


def network_limits(there: OpenStack, **values: tuple[int, int]) -> None:
    """Limit and use in Neutron's words."""
    path = next(path for path in there.documents if "/quotas/" in path)
    for word, (limit, used) in values.items():
        there.documents[path]["quota"][word] = {"limit": limit, "used": used, "reserved": 0}


def asked(nodes: int = 2, **keys: Any) -> list[tuple[str, str]]:
    return findings(config("free", nodes=nodes, **keys))


@pytest.fixture
def large(there: OpenStack) -> None:
    """A flavor of 64 GiB and 8 cores, and room for many such."""
    flavor = next(flavor for flavor in there.listed("flavors") if flavor["name"] == "m1.large")
    flavor |= {"ram": 64 * 1024, "vcpus": 8}
    limits(there, maxTotalInstances=-1, maxTotalCores=-1, maxTotalRAMSize=512 * 1024)


@pytest.mark.usefixtures("large")
def test_memory_is_told_in_gib_with_how_many_nodes_fit(there: OpenStack) -> None:
    limits(there, totalRAMUsed=128 * 1024)
    assert asked(8, flavor="m1.large") == [
        (
            "6 of 8 nodes fit: RAM quota 512 GiB, in use 128, needed 512",
            "ask the site for more quota, or `--nodes 6`, or a smaller flavor",
        )
    ]


@pytest.mark.usefixtures("large")
def test_what_the_deployment_has_counts_as_used_and_as_there(there: OpenStack) -> None:
    """Two servers are there, of them one in ERROR, whose replacement takes its place."""
    for key in ("networks", "keypairs"):
        there.listed(key)[:] = [thing for thing in there.listed(key) if "0badcafe" not in str(thing)]
    limits(there, totalRAMUsed=384 * 1024)
    settings = config(nodes=6, flavor="m1.large")
    ((message, hint),) = findings(settings, record(settings))
    assert message == "4 of 6 nodes fit: RAM quota 512 GiB, in use 384, needed 256"
    assert "`--nodes 4`" in hint
    assert findings(config(nodes=2, flavor="m1.large"), record(settings)) == []


@pytest.mark.usefixtures("large")
def test_a_large_head_leaves_less_for_the_others() -> None:
    assert asked(8, flavor="m1.tiny", head_flavor="m1.large") == []


def test_each_quota_has_its_own_number_and_the_remedy_the_smallest(there: OpenStack) -> None:
    limits(there, maxTotalInstances=5, maxTotalCores=4)
    problems = asked(6)
    assert [message for message, _ in problems] == [
        "5 of 6 nodes fit: instance quota 5, in use 0, needed 6",
        "4 of 6 nodes fit: core quota 4, in use 0, needed 6",
    ]
    assert all("`--nodes 4`" in hint for _, hint in problems)


def test_a_quota_that_leaves_no_node_names_no_smaller_cluster(there: OpenStack) -> None:
    limits(there, maxTotalInstances=5, totalInstancesUsed=5)
    assert asked() == [
        ("0 of 2 nodes fit: instance quota 5, in use 5, needed 2", "ask the site for more quota"),
    ]


def test_a_quota_below_what_is_in_use_is_no_more_than_used_up(there: OpenStack) -> None:
    limits(there, maxTotalInstances=1, totalInstancesUsed=5)
    assert [message for message, _ in asked()] == ["0 of 2 nodes fit: instance quota 1, in use 5, needed 2"]


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
def test_what_a_cluster_needs_once_it_needs_for_any_node(
    there: OpenStack, word: str, message: str, remedy: str
) -> None:
    network_limits(there, **{word: (3, 3)})
    assert asked() == [
        (f"0 of 2 nodes fit: {message} quota 3, in use 3, needed 1", f"ask the site for more quota{remedy}"),
    ]
    network_limits(there, **{word: (4, 3)})
    assert asked() == []
    network_limits(there, **{word: (-1, 3)})
    assert asked() == []


def test_the_security_group_has_a_rule_for_each_network_that_may_connect(there: OpenStack) -> None:
    network_limits(there, security_group_rule=(100, 95))
    assert asked() == []
    networks = [IPv4Network(text) for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
    settings = config("free").model_copy(update={"allow_from": networks})
    assert findings(settings) == [
        ("0 of 2 nodes fit: security group rule quota 100, in use 95, needed 7", "ask the site for more quota"),
    ]


def test_what_is_not_asked_for_needs_no_quota(there: OpenStack) -> None:
    network_limits(there, **dict.fromkeys(("floatingip", "network", "subnet", "router"), (0, 0)))
    assert asked(network="private", floating_ip=False) == []


def test_a_made_network_has_two_ports_beside_those_of_the_nodes(there: OpenStack) -> None:
    network_limits(there, port=(4, 0))
    assert asked(2) == []
    assert [message for message, _ in asked(4)] == ["2 of 4 nodes fit: port quota 4, in use 0, needed 6"]
    assert asked(4, network="private") == []


def test_ports_that_are_there_without_a_server_are_not_asked_for_again(there: OpenStack) -> None:
    """A deploy was ended before it made servers."""
    for key in ("networks", "keypairs"):
        there.listed(key)[:] = [thing for thing in there.listed(key) if "0badcafe" not in str(thing)]
    there.listed("servers").clear()
    mine = [port for port in there.listed("ports") if "1a2b3c4d" in port["name"]]
    network_limits(there, port=(len(mine), len(mine)))
    settings = config(nodes=len(mine))
    assert findings(settings, record(settings)) == []
    more = config(nodes=len(mine) + 1)
    assert [message.partition(":")[2] for message, _ in findings(more, record(more))] == [
        f" port quota {len(mine)}, in use {len(mine)}, needed 1"
    ]


def test_key_pairs_are_counted_since_nova_does_not_say(there: OpenStack) -> None:
    limits(there, maxTotalKeypairs=3)
    assert [message for message, _ in asked()] == ["0 of 2 nodes fit: key pair quota 3, in use 3, needed 1"]


def test_a_server_group_has_a_quota_of_its_own_and_one_of_members(there: OpenStack) -> None:
    limits(there, maxServerGroups=1, totalServerGroupsUsed=1, maxServerGroupMembers=3, maxTotalInstances=-1)
    assert asked(4) == []
    members, group = asked(4, server_group="anti-affinity")
    assert members[0] == "3 of 4 nodes fit: server group member quota 3, in use 0, needed 4"
    assert group[0] == "0 of 4 nodes fit: server group quota 1, in use 1, needed 1"
    assert "leave openstack.server_group out" in group[1]


def test_volumes_have_quotas_where_servers_boot_from_them(there: OpenStack) -> None:
    there.add_volumes()
    there.documents["/volume/v3/limits"]["limits"]["absolute"] |= {"totalVolumesUsed": 9, "totalGigabytesUsed": 900}
    assert [message for message, _ in asked(3, volume_size=40)] == [
        "1 of 3 nodes fit: volume quota 10, in use 9, needed 3",
        "2 of 3 nodes fit: volume storage quota 1000 GiB, in use 900, needed 120",
    ]


@pytest.mark.parametrize("status", [403, 404])
def test_quotas_that_a_site_does_not_show_stand_in_nobodys_way(there: OpenStack, status: int) -> None:
    path = next(path for path in there.documents if "/quotas/" in path)
    there.refusals[f"GET {path}"] = [status]
    network_limits(there, floatingip=(0, 0))
    assert asked() == []
