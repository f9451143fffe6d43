"""The provider `gcp` against a stand-in for Google's API: what it resolves, finds, restarts, removes and counts."""

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
    """A deployment that was told where to make things."""
    values = {"project": PROJECT, "zone": ZONE, "image": LINK + IMAGE}
    return Record(id=ID, config=config(**changes).model_dump(mode="json"), variables={"gcp": values})


def marked(cluster: str = "demo", deployment: str = ID) -> dict[str, Any]:
    """What things with labels carry."""
    return {"labels": {"orchestrator_cluster": cluster, "orchestrator_id": deployment}}


def node(there: StandIn, name: str, status: str = "RUNNING", **mark: Any) -> None:
    """An instance with its boot disk."""
    disk, instance = f"{DISKS}/{name}", f"{INSTANCES}/{name}"
    there.put(disk, users=[LINK + instance], **(mark or marked()))
    disks = [{"boot": True, "autoDelete": True, "source": LINK + disk}]
    there.put(instance, status=status, disks=disks, **(mark or marked()))


def deployed(there: StandIn) -> None:
    """A cluster of two nodes as an apply would leave it."""
    tag, name = f"orchestrator:demo:{ID}", f"orchestrator-demo-{ID}"
    node(there, "demo-head")
    node(there, "demo-worker-0")
    there.put(f"{HERE}/global/networks/{name}", description=tag)
    there.put(f"{HERE}/global/firewalls/{name}-ssh", description=tag, network=f"{LINK}{HERE}/global/networks/{name}")
    subnet = f"{HERE}/regions/{REGION}/subnetworks/{name}"
    there.put(subnet, description=tag, network=f"{LINK}{HERE}/global/networks/{name}")
    there.put(ROUTER, description=tag, network=f"{LINK}{HERE}/global/networks/{name}", nats=[{"name": name}])
    there.put(f"{HERE}/regions/{REGION}/addresses/{name}-head", description=tag)  # before its labels came
    account = f"{HERE}/serviceAccounts/orchestrator-{ID}@{PROJECT}.iam.gserviceaccount.com"
    there.accounts[account] = {"name": account, "email": account.rpartition("/")[2], "displayName": tag}


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.0)
    with google_stand_in.listening(StandIn(), monkeypatch) as stand_in:
        yield stand_in


def test_names_become_links_and_machine_types_become_cores_and_gpus(there: StandIn) -> None:
    variables = gcp.variables(config(accelerator="nvidia-tesla-t4", accelerators=2), Record(id=ID, config={}))
    shape = {"machine_type": "n1-standard-8", "cpus": 8, "gpus": 2, "accelerator": "nvidia-tesla-t4"}
    assert (variables["image"], variables["region"], variables["head"], variables["worker"]) == (
        LINK + IMAGE,
        REGION,
        shape,
        shape,
    )


def test_gpus_that_are_built_in_count_and_a_head_of_another_type_has_its_own(there: StandIn) -> None:
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
def test_what_gpus_there_are_is_said(there: StandIn, changes: dict[str, Any], model: str | None) -> None:
    assert gcp.gpu_and_image(config(**changes), None) == (model, "debian-cloud/debian-12")


@pytest.mark.parametrize("changes", [{"machine_type": "n9-huge"}, {"zone": "nowhere"}])
def test_what_cannot_be_looked_up_is_not_taken_for_no_gpu(there: StandIn, changes: dict[str, Any]) -> None:
    with pytest.raises(PreflightError):
        gcp.gpu_and_image(config(**changes), None)


def test_the_image_stays_until_another_family_is_asked_for(there: StandIn) -> None:
    newer = there.put(IMAGE.replace("v20261010", "v20261111"), family="debian-12", diskSizeGb="10")
    assert gcp.variables(config(), Record(id=ID, config={}))["image"] == newer["selfLink"]
    assert gcp.variables(config(), record())["image"] == LINK + IMAGE
    assert gcp.variables(config(), record(image="debian-cloud/debian-11"))["image"] == newer["selfLink"]


def test_a_survey_finds_everything_of_this_deployment_by_label_or_description(there: StandIn) -> None:
    deployed(there)
    node(there, "other-head", **marked("other", "99999999"))
    resources = gcp.list_resources(record())
    assert sorted(resource.kind for resource in resources) == sorted(
        ["instance"] * 2 + ["disk"] * 2 + ["network", "firewall", "subnet", "router", "nat", "address"]
        + ["service-account"]
    )  # fmt: skip
    assert gcp.list_resources(Record(id=ID, config=record().config)) == []


def test_terraform_knows_a_boot_disk_as_its_instance_and_a_nat_by_its_own_words(there: StandIn) -> None:
    deployed(there)
    identities = {resource.kind: resource.identity for resource in gcp.list_resources(record())}
    assert identities["disk"] == identities["instance"] == f"{INSTANCES}/demo-worker-0"
    assert identities["nat"] == f"{PROJECT}/{REGION}/orchestrator-demo-{ID}/orchestrator-demo-{ID}"
    there.items[f"{DISKS}/demo-worker-0"]["users"] = []
    assert {r.identity for r in gcp.list_resources(record()) if r.kind == "disk"} >= {f"{DISKS}/demo-worker-0"}


def test_what_stands_still_is_not_usable_and_terraform_starts_it(there: StandIn) -> None:
    deployed(there)
    there.items[f"{INSTANCES}/demo-worker-0"]["status"] = "TERMINATED"
    assert {r.name: r.usable for r in gcp.list_resources(record()) if r.kind == "instance"} == {
        "demo-head": True,
        "demo-worker-0": False,
    }
    recorded = {'node["demo-worker-0"]': f"{INSTANCES}/demo-worker-0", "network": "projects/p/global/networks/n"}
    assert gcp.to_replace(record(), recorded) == []


def test_an_instance_without_a_disk_to_start_from_is_lost(there: StandIn) -> None:
    deployed(there)
    there.items[f"{INSTANCES}/demo-worker-0"].update(status="TERMINATED", disks=[])
    recorded = {"head": f"{INSTANCES}/demo-head", "worker": f"{INSTANCES}/demo-worker-0"}
    assert gcp.to_replace(record(), recorded) == ["worker"]


def test_an_instance_that_is_being_stopped_is_waited_for(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed(there)
    there.items[f"{INSTANCES}/demo-worker-0"]["status"] = "STOPPING"

    def stopped(seconds: float) -> None:
        there.items[f"{INSTANCES}/demo-worker-0"].update(status="TERMINATED")

    monkeypatch.setattr(time, "sleep", stopped)
    assert gcp.to_replace(record(), {"worker": f"{INSTANCES}/demo-worker-0"}) == []
    assert there.items[f"{INSTANCES}/demo-worker-0"]["status"] == "TERMINATED"


def test_everything_of_ours_is_removed_in_an_order_that_works_and_look_alikes_stay(there: StandIn) -> None:
    before = set(there.items)
    deployed(there)
    node(there, "demo-worker-9", **marked("demo-2"))
    there.put(f"{HERE}/global/networks/orchestrator-demo-99999999", description="somebody else's")
    there.put(f"{HERE}/global/networks/orchestrator-demo-2-{ID}", description=f"orchestrator:demo-2:{ID}")
    gcp.remove(config(), gcp.list_resources(record()))
    assert gcp.list_resources(record()) == []
    assert there.accounts == {}
    assert {path.rpartition("/")[2] for path in set(there.items) - before} == {
        "demo-worker-9",
        "orchestrator-demo-99999999",
        f"orchestrator-demo-2-{ID}",
    }


def test_a_nat_alone_is_taken_out_of_its_router_and_gone_already_is_fine(there: StandIn) -> None:
    deployed(there)
    there.items[ROUTER]["nats"].append({"name": "of-somebody-else"})
    [nat] = [
        resource
        for resource in gcp.list_resources(record())
        if resource.name == f"orchestrator-demo-{ID}" and resource.kind == "nat"
    ]
    gcp.remove(config(), [nat])
    assert there.items[ROUTER]["nats"] == [{"name": "of-somebody-else"}]
    everything = gcp.list_resources(record())
    gcp.remove(config(), everything)
    gcp.remove(config(), everything)


def test_what_cannot_be_removed_does_not_keep_the_rest(there: StandIn) -> None:
    deployed(there)
    there.failing["instances/demo-head"] = "RESOURCE_OPERATION_RATE_EXCEEDED"
    there.put(
        f"{INSTANCES}/guest",
        networkInterfaces=[{"subnetwork": f"{HERE}/regions/{REGION}/subnetworks/orchestrator-demo-{ID}"}],
    )
    with pytest.raises(OrchestratorError, match=r"demo-head: .*RATE_EXCEEDED[\s\S]*already being used by .*guest"):
        gcp.remove(config(), gcp.list_resources(record()))
    assert {r.kind for r in gcp.list_resources(record())} == {"instance", "disk", "subnet", "network"}


def test_strangers_are_all_of_the_name_whoever_deployed_them(there: StandIn) -> None:
    deployed(there)
    there.put(f"{HERE}/global/networks/n", description="orchestrator:demo:99999999")
    node(there, "demo-b-head", **marked("demo-b"))
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
def test_what_has_a_price_is_counted_by_the_names_of_the_price_list(
    changes: dict[str, Any], priced: dict[str, int]
) -> None:
    assert gcp.priced(config(nodes=4, **changes)) == priced


def test_the_example_of_a_price_list_is_a_configuration_and_has_names_that_are_counted() -> None:
    example = packaged_files.PACKAGE.parent / "docs" / "examples" / "gcp-prices.yaml"
    values = {"machine_type": "a2-highgpu-1g", "zone": "us-central1-a", "spot": True}
    settings = load(example, {"provider": "gcp", **{f"gcp.{key}": value for key, value in values.items()}})
    assert {name for name in gcp.priced(settings) if name not in settings.prices} == set()
    assert settings.currency == "USD"


def test_behind_identity_aware_proxy_no_caller_s_address_matters() -> None:
    assert gcp.default_allow_from(config(iap=True), None) == []
