"""Config → Terraform → Google: terraform/gcp with mocked answers, and on a stand-in for Google's API."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import packaged_files, state, terraform
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.providers import gcp, unmanaged_resources
from orchestrator.providers.gcp.cloud_objects import Site
from orchestrator.state import Record, StateDir
from tests.contract.conftest import Root
from tests.contract.providers import attributes, blocks, declared, initialised, planned, resources
from tests.contract.test_terraform_local import keys_written_by
from tests.stand_ins import google_stand_in
from tests.stand_ins.google_stand_in_data import HERE, IMAGE, LINK, PROJECT, REGION, ZONE
from tests.stand_ins.google_stand_in_memory import StandIn

GOLDEN = Path(__file__).parent / "golden" / "gcp.json"
N1 = {"machine_type": "n1-standard-8", "cpus": 8, "gpus": 0, "accelerator": None}
T4 = {**N1, "gpus": 2, "accelerator": "nvidia-tesla-t4"}
GCP = {
    "project": PROJECT,
    "region": REGION,
    "zone": ZONE,
    "image": LINK + IMAGE,
    "head": N1,
    "worker": T4,
    "disk_size": 50,
    "disk_type": "pd-balanced",
    "spot": False,
    "compact": False,
    "subnet": "10.77.0.0/24",
    "iap": False,
}
VARIABLES = {
    "name": "demo",
    "id": "1a2b3c4d",
    "nodes": 3,
    "slots": None,
    "ssh_public_key": "ssh-ed25519 AAAA orchestrator",
    "allow_from": ["192.0.2.7/32"],
    "without": [],
    "gcp": GCP,
}
MOCKED = """
mock_provider "google" {
  mock_resource "google_service_account" {
    defaults = { email = "orchestrator-1a2b3c4d@demo-project.iam.gserviceaccount.com" }
  }
  mock_resource "google_compute_address" {
    defaults = { address = "198.51.100.7" }
  }
}
run "mocked" {}
"""
LABELS = {"orchestrator_cluster": "demo", "orchestrator_id": "1a2b3c4d"}
TAG = "orchestrator:demo:1a2b3c4d"
INSTANCES = f"{HERE}/zones/{ZONE}/instances"


def test_provider_writes_the_declared_attributes() -> None:
    assert set(VARIABLES) == set(declared("gcp"))
    assert list(keys_written_by(gcp.variables)) == [set(attributes("gcp"))] == [set(GCP)]
    assert list(keys_written_by(Site.shape)) == [set(N1)]


def test_every_resource_is_marked_by_the_call_that_creates_it() -> None:
    """An address gets labels by a second call, which an interrupted apply may not reach."""
    for name, body in resources("gcp").items():
        if not name.startswith("google_compute_router_nat"):  # a line in its router
            assert body["description"] == "${local.tag}", name
    labelled = {name for name, body in resources("gcp").items() if body.get("labels") == "${local.labels}"}
    assert labelled == {"google_compute_address.head", "google_compute_instance.node"}


def test_names_fit_googles_length_limit() -> None:
    longest = f"orchestrator-{'n' * 30}-1a2b3c4d-nodes"
    assert len(longest) <= 63
    names = {body["name"] for name, body in resources("gcp").items() if "name" in body and "instance" not in name}
    assert names == {
        "${local.prefix}",
        "${local.prefix}-ssh",
        "${local.prefix}-nodes",
        "${local.prefix}-head",
    }
    assert resources("gcp")["google_service_account.node"]["account_id"] == "orchestrator-${var.id}"
    assert len("orchestrator-1a2b3c4d") <= 30


def test_root_contains_no_credentials() -> None:
    assert [set(block["google"]) for block in blocks("gcp", "provider")] == [{"project", "region", "zone"}]


@pytest.fixture(scope="module")
def root(terraform: str, tmp_path_factory: pytest.TempPathFactory) -> Root:
    """Copy terraform/gcp with the real provider; skip if it is not available."""
    return initialised(terraform, "gcp", tmp_path_factory.mktemp("gcp"))


def mocked(root: Root, **changes: Any) -> dict[str, Any]:
    """Return values by address that `terraform test` plans for these variables with mocked answers."""
    root.write_variables({**VARIABLES, **changes})
    (root.directory / "tests").mkdir(exist_ok=True)
    (root.directory / "tests" / "mocked.tftest.hcl").write_text(MOCKED)
    result = root.run("test", "-json", "-verbose")
    assert result.code == 0, result.text
    lines = [json.loads(line) for line in result.text.splitlines()]
    [test_state] = [line["test_state"] for line in lines if line["type"] == "test_state"]
    return {resource["address"]: resource["values"] for resource in test_state["root_module"]["resources"]}


def test_root_is_valid(root: Root) -> None:
    assert root.json("validate", "-json")["diagnostics"] == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": 0}, "nodes must be an integer of at least 1."),
        ({"allow_from": ["fd00::/64"]}, "allow_from must contain IPv4 networks such as 198.51.100.7/32."),
        ({"gcp": {**GCP, "subnet": "everywhere"}}, "gcp.subnet must be an IPv4 network such as 10.77.0.0/24."),
        ({"gcp": {**GCP, "region": "europe-west1"}}, "gcp.zone must be a zone of gcp.region."),
        ({"without": ["demo-head"]}, "without must not contain the head."),
        ({"gcp": {**GCP, "worker": {**T4, "cpus": 0}}}, "A node must have more than 0 cpus and at least 0 gpus."),
    ],
)
def test_impossible_variables_are_refused_at_plan_time(
    root: Root, api: StandIn, changes: dict[str, Any], problem: str
) -> None:
    assert problem in root.problems({**VARIABLES, **changes})


def test_plan_gives_the_golden_cluster(root: Root, api: StandIn) -> None:
    output = planned(root, VARIABLES)
    assert output == json.loads(GOLDEN.read_text())
    cluster = clusters.read(output)
    assert (cluster.head, cluster.ssh_user, cluster.storage, cluster.trainer, cluster.slots) == (
        "demo-head", "orchestrator", "nfs", "container", 4,  # none on the head
    )  # fmt: skip


def test_default_firewall_allows_only_ssh_from_the_caller(root: Root) -> None:
    test_state = mocked(root)
    ssh, nodes = test_state["google_compute_firewall.ssh[0]"], test_state["google_compute_firewall.nodes"]
    assert (ssh["source_ranges"], ssh["allow"]) == (["192.0.2.7/32"], [{"ports": ["22"], "protocol": "tcp"}])
    assert nodes["source_ranges"] is None
    assert nodes["source_service_accounts"] == nodes["target_service_accounts"] == ssh["target_service_accounts"]
    outside = {key: bool(node["network_interface"][0]["access_config"]) for key, node in of_nodes(test_state).items()}
    assert outside == {"demo-head": True, "demo-worker-0": False, "demo-worker-1": False}


def of_nodes(test_state: dict[str, Any]) -> dict[str, Any]:
    return {
        values["name"]: values for key, values in test_state.items() if key.startswith("google_compute_instance.node")
    }


def test_nodes_have_only_our_key_and_no_project_rights(root: Root) -> None:
    for node in of_nodes(mocked(root)).values():
        assert node["labels"] == node["boot_disk"][0]["initialize_params"][0]["labels"] == LABELS
        assert [account["scopes"] for account in node["service_account"]] == [[]]
        assert node["metadata"] == {
            "orchestrator": "demo:1a2b3c4d",
            "enable-oslogin": "FALSE",
            "block-project-ssh-keys": "TRUE",
            "ssh-keys": "orchestrator:ssh-ed25519 AAAA orchestrator",
        }


def test_nodes_boot_signed_code_unless_a_driver_is_built(root: Root) -> None:
    shielded = {name: node["shielded_instance_config"] for name, node in of_nodes(mocked(root)).items()}
    safe = {"enable_vtpm": True, "enable_integrity_monitoring": True}
    assert shielded["demo-head"] == [{"enable_secure_boot": True, **safe}]
    assert shielded["demo-worker-0"] == [{"enable_secure_boot": False, **safe}]


def test_gpu_nodes_have_googles_fast_network_interface(root: Root) -> None:
    nodes = of_nodes(mocked(root))
    types = {name: node["network_interface"][0]["nic_type"] for name, node in nodes.items()}
    assert types["demo-worker-0"] == "GVNIC"
    assert types["demo-head"] != "GVNIC"


def test_only_signed_images_are_shielded() -> None:
    text = (packaged_files.directory("terraform") / "gcp" / "main.tf").read_text()
    signed = re.search(r'signed = can\(regex\("(.*)", var.gcp.image\)\)', text)
    assert signed is not None
    own = "projects/demo-project/global/images/debian-cloud"
    assert [bool(re.search(signed[1], LINK + image)) for image in (IMAGE, own)] == [True, False]
    node = resources("gcp")["google_compute_instance.node"]
    [shielded] = [block["shielded_instance_config"] for block in node["dynamic"] if "shielded_instance_config" in block]
    assert shielded["for_each"] == "${local.signed ? [each.value.shape] : []}"
    assert "shielded_instance_config" in node["lifecycle"][0]["ignore_changes"]


def test_local_ssds_that_google_adds_replace_no_node() -> None:
    node = resources("gcp")["google_compute_instance.node"]
    assert "scratch_disk" not in node  # a2-ultragpu and a3 have them all the same
    ignored = ["shielded_instance_config", "${network_interface[0].nic_type}", "scratch_disk"]
    assert node["lifecycle"] == [{"ignore_changes": ignored}]


@pytest.mark.parametrize("name", ["google_compute_address.head", "google_compute_resource_policy.cluster"])
def test_optional_resource_is_deleted_after_the_nodes_stop_using_it(name: str) -> None:
    assert resources("gcp")[name]["lifecycle"] == [{"create_before_destroy": True}]


def test_nat_gives_nodes_more_ports_on_demand() -> None:
    nat = resources("gcp")["google_compute_router_nat.cluster"]
    assert nat["enable_dynamic_port_allocation"] is True
    assert nat["enable_endpoint_independent_mapping"] is False  # Google refuses both together
    assert (nat["min_ports_per_vm"], nat["max_ports_per_vm"]) == (64, 4096)  # powers of two


def test_only_gpu_nodes_with_signed_images_ask_for_gvnic() -> None:
    [interface] = resources("gcp")["google_compute_instance.node"]["network_interface"]
    assert interface["nic_type"] == '${local.signed && each.value.shape.gpus > 0 ? "GVNIC" : null}'


def test_addresses_stay_if_the_cluster_grows_or_drops_a_node(root: Root) -> None:
    small, large = of_nodes(mocked(root)), of_nodes(mocked(root, nodes=12, without=["demo-worker-0"]))
    addresses = {name: node["network_interface"][0]["network_ip"] for name, node in {**small, **large}.items()}
    assert (addresses["demo-head"], addresses["demo-worker-1"]) == ("10.77.0.10", "10.77.0.12")
    assert set(large) == {"demo-head", *(f"demo-worker-{number}" for number in range(1, 11))}


@pytest.mark.parametrize(
    ("changes", "name", "expected"),
    [
        ({}, "demo-head", ("MIGRATE", True, "STANDARD", False)),
        ({}, "demo-worker-0", ("TERMINATE", True, "STANDARD", False)),
        ({"compact": True}, "demo-head", ("TERMINATE", True, "STANDARD", False)),
        ({"spot": True}, "demo-head", ("TERMINATE", False, "SPOT", True)),
    ],
)
def test_gpu_and_compact_nodes_stop_and_spot_nodes_stay_stopped(
    root: Root, changes: dict[str, Any], name: str, expected: tuple[Any, ...]
) -> None:
    test_state = mocked(root, gcp={**GCP, **changes})
    [scheduling] = of_nodes(test_state)[name]["scheduling"]
    keys = ("on_host_maintenance", "automatic_restart", "provisioning_model", "preemptible")
    assert tuple(scheduling[key] for key in keys) == expected
    assert ("google_compute_resource_policy.cluster[0]" in test_state) == changes.get("compact", False)


def test_iap_gives_no_node_an_external_address(root: Root) -> None:
    test_state = mocked(root, allow_from=[], gcp={**GCP, "iap": True})
    assert test_state["google_compute_firewall.ssh[0]"]["source_ranges"] == ["35.235.240.0/20"]
    assert not any(node["network_interface"][0]["access_config"] for node in of_nodes(test_state).values())
    assert "google_compute_address.head[0]" not in test_state


def test_empty_allow_from_creates_no_ssh_rule(root: Root) -> None:
    assert "google_compute_firewall.ssh[0]" not in mocked(root, allow_from=[])


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Start a stand-in for Google's API, used by Terraform's real provider and by our own calls."""
    with google_stand_in.listening(StandIn(), monkeypatch) as stand_in:
        yield stand_in


@pytest.fixture
def state_dir(root: Root) -> StateDir:
    """Return a state directory, only if the provider is available."""
    return state.for_cluster("demo")


def record(**changes: Any) -> Record:
    config = Config.model_validate({"name": "demo", "provider": "gcp", "nodes": 3, "gcp": {"zone": ZONE}})
    variables = {**VARIABLES, **changes}
    return Record(id="1a2b3c4d", config=config.model_dump(mode="json"), variables=variables, applied=variables)


def silent(line: str) -> None:
    pass


def provisioned(state_dir: StateDir, deployment: Record) -> tuple[Cluster, dict[str, str]]:
    """Provision nodes like `deploy`."""
    return gcp.provision(state_dir, deployment, gcp.unmanaged(state_dir, deployment), silent)


def test_real_provider_and_own_calls_agree_on_resources(api: StandIn, state_dir: StateDir) -> None:
    """Create a cluster, repeat, list, stop, lose a node, damage one, and destroy it."""
    before = set(api.items)
    cluster, missing = provisioned(state_dir, record())
    assert (list(cluster.nodes), missing) == (["demo-head", "demo-worker-0", "demo-worker-1"], {})
    identities = {resource.identity for resource in gcp.list_resources(record())}
    assert identities == set(terraform.recorded(state_dir, "gcp").recorded.values())

    api.items[f"{INSTANCES}/demo-head"]["status"] = "TERMINATED"
    api.answer("DELETE", f"/compute/{INSTANCES}/demo-worker-0", {}, {})
    api.put(f"{HERE}/zones/{ZONE}/disks/left", labels=LABELS)
    again, _ = provisioned(state_dir, record())
    assert api.items[f"{INSTANCES}/demo-head"]["status"] == "RUNNING"
    unchanged = {name for name, node in again.nodes.items() if node.id == cluster.nodes[name].id}
    assert unchanged == {"demo-head", "demo-worker-1"}
    assert f"{HERE}/zones/{ZONE}/disks/left" not in api.items

    before_second_plan = len(api.requests)
    provisioned(state_dir, record())
    assert {line.partition(" ")[0] for line in api.requests[before_second_plan:]} == {"GET"}
    gcp.destroy(state_dir, record(), silent)
    assert (set(api.items), api.accounts) == (before, {})


def test_node_without_capacity_at_google_is_left_out(api: StandIn, state_dir: StateDir) -> None:
    api.failing["instances/demo-worker-1"] = "ZONE_RESOURCE_POOL_EXHAUSTED"
    deployment = record()
    deployment.config["min_nodes"] = 2
    cluster, missing = provisioned(state_dir, deployment)
    assert list(cluster.nodes) == ["demo-head", "demo-worker-0"]
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in missing["demo-worker-1"]
    shutil.rmtree(state_dir.terraform)  # Terraform's state is lost
    gcp.remove(Config.model_validate(deployment.config), gcp.list_resources(deployment))
    assert unmanaged_resources.find(state_dir, deployment) == []
