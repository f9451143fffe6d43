"""The provider `gcp` on a stand-in for Google's API: it resolves, lists, restarts, removes and counts resources."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator import packaged_files
from orchestrator.config import Config, load
from orchestrator.errors import OrchestratorError, PreflightError
from orchestrator.providers import gcp
from orchestrator.providers.gcp.api import client
from orchestrator.state import Record
from tests.stand_ins import google_stand_in
from tests.stand_ins.google_stand_in_data import HERE, IMAGE, LINK, PROJECT, REGION, ZONE
from tests.stand_ins.google_stand_in_memory import StandIn

ID = "1a2b3c4d"
INSTANCES, DISKS = f"{HERE}/zones/{ZONE}/instances", f"{HERE}/zones/{ZONE}/disks"
ROUTER = f"{HERE}/regions/{REGION}/routers/orchestrator-demo-{ID}"


def config(nodes: int = 2, **changes: Any) -> Config:
    section = {"project": PROJECT, "zone": ZONE, **changes}
    return Config.model_validate({"name": "demo", "provider": "gcp", "nodes": nodes, "gcp": section})


def record(**changes: Any) -> Record:
    """Return the record of a deployment with a project and a zone."""
    values = {"project": PROJECT, "zone": ZONE, "image": LINK + IMAGE}
    return Record(id=ID, config=config(**changes).model_dump(mode="json"), variables={"gcp": values})


def marked(cluster: str = "demo", deployment: str = ID) -> dict[str, Any]:
    """Return the labels of a resource."""
    return {"labels": {"orchestrator_cluster": cluster, "orchestrator_id": deployment}}


def node(cloud: StandIn, name: str, status: str = "RUNNING", **mark: Any) -> None:
    """Add an instance with its boot disk."""
    disk, instance = f"{DISKS}/{name}", f"{INSTANCES}/{name}"
    cloud.put(disk, users=[LINK + instance], **(mark or marked()))
    disks = [{"boot": True, "autoDelete": True, "source": LINK + disk}]
    cloud.put(instance, status=status, disks=disks, **(mark or marked()))


def deployed(cloud: StandIn) -> None:
    """Add a cluster of two nodes as an apply leaves it."""
    tag, name = f"orchestrator:demo:{ID}", f"orchestrator-demo-{ID}"
    node(cloud, "demo-head")
    node(cloud, "demo-worker-0")
    cloud.put(f"{HERE}/global/networks/{name}", description=tag)
    cloud.put(f"{HERE}/global/firewalls/{name}-ssh", description=tag, network=f"{LINK}{HERE}/global/networks/{name}")
    subnet = f"{HERE}/regions/{REGION}/subnetworks/{name}"
    cloud.put(subnet, description=tag, network=f"{LINK}{HERE}/global/networks/{name}")
    cloud.put(ROUTER, description=tag, network=f"{LINK}{HERE}/global/networks/{name}", nats=[{"name": name}])
    cloud.put(f"{HERE}/regions/{REGION}/addresses/{name}-head", description=tag)  # before it gets labels
    account = f"{HERE}/serviceAccounts/orchestrator-{ID}@{PROJECT}.iam.gserviceaccount.com"
    cloud.accounts[account] = {"name": account, "email": account.rpartition("/")[2], "displayName": tag}


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.0)
    with google_stand_in.listening(StandIn(), monkeypatch) as stand_in:
        yield stand_in


def test_names_become_links_and_types_become_cores_and_gpus(cloud: StandIn) -> None:
    variables = gcp.variables(config(accelerator="nvidia-tesla-t4", accelerators=2), Record(id=ID, config={}))
    shape = {"machine_type": "n1-standard-8", "cpus": 8, "gpus": 2, "accelerator": "nvidia-tesla-t4"}
    assert (variables["image"], variables["region"], variables["head"], variables["worker"]) == (
        LINK + IMAGE,
        REGION,
        shape,
        shape,
    )


def test_built_in_gpus_count_and_head_type_has_its_own(cloud: StandIn) -> None:
    settings = config(machine_type="g2-standard-8", head_machine_type="e2-standard-4")
    variables = gcp.variables(settings, Record(id=ID, config={}))
    assert (variables["worker"]["accelerator"], variables["worker"]["gpus"]) == ("nvidia-l4", 1)
    assert (variables["head"]["accelerator"], variables["head"]["gpus"], variables["head"]["cpus"]) == (None, 0, 4)


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ({}, None),
        ({"accelerator": "nvidia-tesla-t4"}, "nvidia-tesla-t4"),
        ({"machine_type": "g2-standard-8", "head_machine_type": "e2-standard-4"}, "nvidia-l4"),
        ({"machine_type": "e2-standard-4", "head_machine_type": "g2-standard-8"}, "nvidia-l4"),
    ],
)
def test_gpu_model_of_a_configuration_is_known(cloud: StandIn, changes: dict[str, Any], model: str | None) -> None:
    assert gcp.gpu_and_image(config(**changes), None) == (model, "debian-cloud/debian-12")


@pytest.mark.parametrize("changes", [{"machine_type": "n9-huge"}, {"zone": "nowhere"}])
def test_failed_lookup_does_not_mean_no_gpu(cloud: StandIn, changes: dict[str, Any]) -> None:
    with pytest.raises(PreflightError):
        gcp.gpu_and_image(config(**changes), None)


def test_image_stays_until_another_family_is_requested(cloud: StandIn) -> None:
    newer = cloud.put(IMAGE.replace("v20261010", "v20261111"), family="debian-12", diskSizeGb="10")
    assert gcp.variables(config(), Record(id=ID, config={}))["image"] == newer["selfLink"]
    assert gcp.variables(config(), record())["image"] == LINK + IMAGE
    assert gcp.variables(config(), record(image="debian-cloud/debian-11"))["image"] == newer["selfLink"]


def test_survey_finds_resources_by_label_or_description(cloud: StandIn) -> None:
    deployed(cloud)
    node(cloud, "other-head", **marked("other", "99999999"))
    resources = gcp.list_resources(record())
    assert sorted(resource.kind for resource in resources) == sorted(
        ["instance"] * 2 + ["disk"] * 2 + ["network", "firewall", "subnet", "router", "nat", "address"]
        + ["service-account"]
    )  # fmt: skip
    assert gcp.list_resources(Record(id=ID, config=record().config)) == []


def test_boot_disks_and_nats_have_the_identity_of_terraform(cloud: StandIn) -> None:
    deployed(cloud)
    identities = {resource.kind: resource.identity for resource in gcp.list_resources(record())}
    assert identities["disk"] == identities["instance"] == f"{INSTANCES}/demo-worker-0"
    assert identities["nat"] == f"{PROJECT}/{REGION}/orchestrator-demo-{ID}/orchestrator-demo-{ID}"
    cloud.items[f"{DISKS}/demo-worker-0"]["users"] = []
    assert {r.identity for r in gcp.list_resources(record()) if r.kind == "disk"} >= {f"{DISKS}/demo-worker-0"}


def test_stopped_instance_is_unusable_and_started_by_terraform(cloud: StandIn) -> None:
    deployed(cloud)
    cloud.items[f"{INSTANCES}/demo-worker-0"]["status"] = "TERMINATED"
    assert {r.name: r.usable for r in gcp.list_resources(record()) if r.kind == "instance"} == {
        "demo-head": True,
        "demo-worker-0": False,
    }
    recorded = {'node["demo-worker-0"]': f"{INSTANCES}/demo-worker-0", "network": "projects/p/global/networks/n"}
    assert gcp.to_replace(record(), recorded) == []


def test_instance_without_a_boot_disk_is_lost(cloud: StandIn) -> None:
    deployed(cloud)
    cloud.items[f"{INSTANCES}/demo-worker-0"].update(status="TERMINATED", disks=[])
    recorded = {"head": f"{INSTANCES}/demo-head", "worker": f"{INSTANCES}/demo-worker-0"}
    assert gcp.to_replace(record(), recorded) == ["worker"]


def test_stopping_instance_is_waited_for(cloud: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed(cloud)
    cloud.items[f"{INSTANCES}/demo-worker-0"]["status"] = "STOPPING"

    def stopped(seconds: float) -> None:
        cloud.items[f"{INSTANCES}/demo-worker-0"].update(status="TERMINATED")

    monkeypatch.setattr(time, "sleep", stopped)
    assert gcp.to_replace(record(), {"worker": f"{INSTANCES}/demo-worker-0"}) == []
    assert cloud.items[f"{INSTANCES}/demo-worker-0"]["status"] == "TERMINATED"


def test_own_resources_are_removed_in_order_and_others_stay(cloud: StandIn) -> None:
    before = set(cloud.items)
    deployed(cloud)
    node(cloud, "demo-worker-9", **marked("demo-2"))
    cloud.put(f"{HERE}/global/networks/orchestrator-demo-99999999", description="somebody else's")
    cloud.put(f"{HERE}/global/networks/orchestrator-demo-2-{ID}", description=f"orchestrator:demo-2:{ID}")
    gcp.remove(config(), gcp.list_resources(record()))
    assert gcp.list_resources(record()) == []
    assert cloud.accounts == {}
    assert {path.rpartition("/")[2] for path in set(cloud.items) - before} == {
        "demo-worker-9",
        "orchestrator-demo-99999999",
        f"orchestrator-demo-2-{ID}",
    }


def test_nat_is_removed_from_its_router_or_already_gone(cloud: StandIn) -> None:
    deployed(cloud)
    cloud.items[ROUTER]["nats"].append({"name": "of-somebody-else"})
    [nat] = [
        resource
        for resource in gcp.list_resources(record())
        if resource.name == f"orchestrator-demo-{ID}" and resource.kind == "nat"
    ]
    gcp.remove(config(), [nat])
    assert cloud.items[ROUTER]["nats"] == [{"name": "of-somebody-else"}]
    everything = gcp.list_resources(record())
    gcp.remove(config(), everything)
    gcp.remove(config(), everything)


def test_failed_removal_does_not_stop_the_others(cloud: StandIn) -> None:
    deployed(cloud)
    cloud.failing["instances/demo-head"] = "RESOURCE_OPERATION_RATE_EXCEEDED"
    cloud.put(
        f"{INSTANCES}/guest",
        networkInterfaces=[{"subnetwork": f"{HERE}/regions/{REGION}/subnetworks/orchestrator-demo-{ID}"}],
    )
    with pytest.raises(OrchestratorError, match=r"demo-head: .*RATE_EXCEEDED[\s\S]*already being used by .*guest"):
        gcp.remove(config(), gcp.list_resources(record()))
    assert {r.kind for r in gcp.list_resources(record())} == {"instance", "disk", "subnet", "network"}


def test_unowned_resources_are_those_with_the_clusters_name(cloud: StandIn) -> None:
    deployed(cloud)
    cloud.put(f"{HERE}/global/networks/n", description="orchestrator:demo:99999999")
    node(cloud, "demo-b-head", **marked("demo-b"))
    names = {(resource.kind, resource.name) for resource in gcp.unowned_resources(config())}
    assert ("network", "n") in names
    assert ("instance", "demo-head") in names
    assert ("instance", "demo-b-head") not in names


@pytest.mark.parametrize(
    ("changes", "priced"),
    [
        ({}, {"n1-standard-8": 4, "external address": 1, "Cloud NAT": 3}),
        ({"iap": True}, {"n1-standard-8": 4, "Cloud NAT": 4}),
        (
            {"accelerator": "nvidia-tesla-t4", "accelerators": 2, "head_machine_type": "e2-standard-4", "spot": True},
            {
                "e2-standard-4 spot": 1,
                "n1-standard-8 spot": 3,
                "nvidia-tesla-t4 spot": 6,
                "external address spot": 1,
                "Cloud NAT": 3,
            },
        ),
    ],
)
def test_priced_resources_are_counted_by_names_of_the_list(changes: dict[str, Any], priced: dict[str, int]) -> None:
    assert gcp.priced(config(nodes=4, **changes)) == priced


def test_price_list_example_is_valid_and_has_counted_names() -> None:
    example = packaged_files.PACKAGE.parent / "docs" / "examples" / "gcp-prices.yaml"
    values = {"machine_type": "a2-highgpu-1g", "zone": "us-central1-a", "spot": True}
    settings = load(example, {"provider": "gcp", **{f"gcp.{key}": value for key, value in values.items()}})
    assert {name for name in gcp.priced(settings) if name not in settings.prices} == set()
    assert settings.currency == "USD"


def test_iap_needs_no_callers_address() -> None:
    assert gcp.default_allow_from(config(iap=True), None) == []
