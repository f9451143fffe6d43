"""Plans of terraform/openstack, if Terraform finds the provider. They call no cloud."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from tests.contract import providers
from tests.contract.conftest import Root
from tests.contract.providers import planned, planned_resources

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "openstack.json"
VARIABLES = json.loads((HERE / "golden" / "openstack.tfvars.json").read_text())
OWN = VARIABLES["openstack"]
SERVER, PORT = "openstack_compute_instance_v2", "openstack_networking_port_v2"
USER_DATA = """\
#cloud-config
# image image-1, flavor {}
{{"ssh_pwauth":false,"users":[{{"lock_passwd":true,"name":"orchestrator","shell":"/bin/bash",\
"ssh_authorized_keys":["ssh-ed25519 AAAA orchestrator"],"sudo":"ALL=(ALL) NOPASSWD:ALL"}}]}}
"""


@pytest.fixture(scope="session")
def initialised(terraform: str, tmp_path_factory: pytest.TempPathFactory) -> Root:
    return providers.initialised(terraform, "openstack", tmp_path_factory.mktemp("openstack"))


@pytest.fixture
def root(initialised: Root, monkeypatch: pytest.MonkeyPatch) -> Root:
    """Share a root between all tests, which do not apply it. The provider needs a cloud's name and does not call it."""
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:9/v3")
    monkeypatch.delenv("OS_CLOUD", raising=False)
    return initialised


def variables(**changes: Any) -> dict[str, Any]:
    """Return VARIABLES with changes of their own, or of the object ``openstack``."""
    own = {key: changes.pop(key) for key in list(changes) if key in OWN}
    return {**VARIABLES, **changes, "openstack": {**OWN, **own}}


def planned_values(root: Root, kind: str, **changes: Any) -> list[dict[str, Any]]:
    """Return the values of every resource of a kind that a plan would create."""
    planned(root, variables(**changes))
    return [values for address, values in planned_resources(root).items() if address.startswith(f"{kind}.")]


def test_root_is_valid(root: Root) -> None:
    assert root.json("validate", "-json")["diagnostics"] == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": 0}, "nodes must be an integer of at least 1."),
        ({"allow_from": ["everywhere"]}, "allow_from must contain networks such as 203.0.113.7/32."),
        ({"without": ["demo-head"]}, "without must not contain the head."),
        ({"subnet": "fd00::/64"}, "openstack.subnet must be an IPv4 network such as 10.77.0.0/24."),
        ({"external_network_name": None}, "openstack.floating_ip requires openstack.external_network_name"),
        ({"external_network": None}, "openstack.floating_ip requires openstack.external_network, unless"),
        ({"server_group": "affinity"}, "openstack.server_group must be null, anti-affinity or soft-anti-affinity."),
    ],
)
def test_impossible_variables_are_refused_at_plan_time(root: Root, changes: dict[str, Any], problem: str) -> None:
    problems = root.problems(variables(**changes))
    assert any(problem in message for message in problems), problems


def test_plan_gives_the_golden_cluster(root: Root) -> None:
    output = planned(root, VARIABLES)
    assert output == json.loads(GOLDEN.read_text())
    cluster = clusters.read(output)
    assert (cluster.storage, cluster.trainer, cluster.slots) == ("nfs", "container", 4)  # none on the head
    assert [cluster.behind(name) for name in cluster.nodes] == [False, True, True]


def test_addresses_stay_if_the_cluster_grows_or_drops_a_node(root: Root) -> None:
    others = ({"nodes": 1}, {"nodes": 12, "without": ["demo-worker-0"]})
    small, large = (clusters.read(planned(root, variables(**changes))) for changes in others)
    assert small.nodes["demo-head"] == large.nodes["demo-head"]
    assert list(large.nodes) == ["demo-head", *(f"demo-worker-{number}" for number in range(1, 11))]
    assert large.nodes["demo-worker-10"].private_address == "10.77.0.21"


def test_user_data_of_servers_is_unchanged(root: Root) -> None:
    """A change of this text replaces every node of every cluster at the next deploy."""
    texts = [USER_DATA.format(flavor) for flavor in ("any", "flavor-2", "flavor-2")]
    sums = [hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for text in texts]
    assert [server["user_data"] for server in planned_values(root, SERVER)] == sums


def test_existing_network_is_used_and_none_is_created(root: Root) -> None:
    ports = planned_values(root, PORT, network="network-2", external_network=None)
    assert [(port["network_id"], "fixed_ip" in port and port["fixed_ip"]) for port in ports] == [("network-2", [])] * 3
    kinds = {address.split(".")[0] for address in planned_resources(root)}
    assert not kinds & {f"openstack_networking_{kind}_v2" for kind in ("network", "subnet", "router")}


def test_nodes_have_the_addresses_of_the_existing_network(root: Root) -> None:
    if tuple(map(int, root.json("version", "-json")["terraform_version"].split(".")[:2])) < (1, 8):
        pytest.skip("mocked providers came with Terraform 1.7 and OpenTofu 1.8")
    shutil.copy(HERE / "openstack.tftest.hcl", root.directory)
    root.write_variables(variables(network="network-2", nodes=1))
    result = root.run("test", "-no-color")
    assert result.code == 0, result.text


def test_only_the_head_has_a_floating_ip_unless_disabled(root: Root) -> None:
    assert [ip["pool"] for ip in planned_values(root, "openstack_networking_floatingip_v2")] == ["public"]
    without = clusters.read(planned(root, variables(floating_ip=False, external_network_name=None)))
    assert [node.public_address for node in without.nodes.values()] == [None] * 3


def test_only_allow_from_networks_may_connect_without_host_bits(root: Root) -> None:
    rules = planned_values(
        root, "openstack_networking_secgroup_rule_v2", allow_from=["203.0.113.7/24", "2001:db8::7/32"]
    )
    outside = {(rule["ethertype"], rule["remote_ip_prefix"]) for rule in rules if rule.get("port_range_min")}
    assert outside == {("IPv4", "203.0.113.0/24"), ("IPv6", "2001:db8::/32")}
    assert len(rules) == 6


def test_boot_volume_size_creates_named_volumes(root: Root) -> None:
    volumes = planned_values(root, "openstack_blockstorage_volume_v3", volume_size=40, volume_type="fast")
    names = [f"orchestrator-demo-1a2b3c4d-{part}" for part in ("head", "worker-0", "worker-1")]
    assert [volume["name"] for volume in volumes] == names
    about = [(volume["size"], volume["volume_type"], volume["image_id"]) for volume in volumes]
    assert about == [(40, "fast", "image-1")] * 3
    servers = [values for address, values in planned_resources(root).items() if address.startswith(SERVER)]
    devices = [device for server in servers for device in server["block_device"]]
    assert [(device["boot_index"], device["delete_on_termination"]) for device in devices] == [(0, False)] * 3


def test_servers_have_the_requested_placement(root: Root) -> None:
    servers = planned_values(root, SERVER, server_group="anti-affinity", availability_zone="zone-1", config_drive=True)
    placed = [
        (server["availability_zone"], server["config_drive"], len(server["scheduler_hints"])) for server in servers
    ]
    assert placed == [("zone-1", True, 1)] * 3
    assert [server["flavor_id"] for server in servers] == ["flavor-1", "flavor-2", "flavor-2"]
