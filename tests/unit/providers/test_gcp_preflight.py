"""Findings of the preflight of provider `gcp`, on a stand-in for Google's API: all at once, each with its remedy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.gpu_section import Gpu
from orchestrator.errors import PreflightError
from orchestrator.lifecycle import plan
from orchestrator.providers import gcp
from orchestrator.providers.gcp import quota_checks
from orchestrator.providers.gcp.preflight_checks import NEEDED
from orchestrator.state import Record
from tests.stand_ins import google_stand_in
from tests.stand_ins.google_stand_in_data import HERE, IMAGE, PROJECT, REGION, ZONE, refusal
from tests.stand_ins.google_stand_in_memory import StandIn
from tests.unit.conftest import StandIn as Tool
from tests.unit.providers.test_gcp import INSTANCES, config, deployed, marked, node, record

PLACE, T4 = f"{HERE}/regions/{REGION}", "nvidia-tesla-t4"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with google_stand_in.listening(StandIn(), monkeypatch) as stand_in:
        yield stand_in


def findings(record: Record | None = None, nodes: int = 2, **changes: Any) -> list[PreflightError]:
    try:
        gcp.preflight(config(nodes, **changes), record)
    except PreflightError as error:
        return error.findings
    return []


def test_possible_cluster_has_no_findings(cloud: StandIn) -> None:
    assert findings(accelerator=T4) == []
    assert findings(machine_type="g2-standard-8", compact=True) == []
    assert findings(machine_type="g2-standard-8", accelerator="nvidia-l4", spot=True) == []
    deployed(cloud)
    assert findings(record()) == []


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"project": "other"}, "gcp.project: there is no project 'other', or not for you", "projects list"),
        (
            {"zone": "europe-west4-x"},
            "gcp.zone: there is no zone 'europe-west4-x', did you mean europe-west4-a?",
            "there are europe-west4-a",
        ),
        (
            {"image": "debian-cloud/debian-21"},
            "gcp.image: project 'debian-cloud' has neither a family nor an image 'debian-21'",
            "images list",
        ),
        (
            {"image": "mine"},
            "gcp.image: project 'demo-project' has neither a family nor an image 'mine'",
            "PROJECT/FAMILY",
        ),
        (
            {"machine_type": "n9-huge"},
            "gcp.machine_type: zone europe-west4-a has no machine type 'n9-huge'",
            "machine-types list",
        ),
        (
            {"head_machine_type": "n9-huge"},
            "gcp.head_machine_type: zone europe-west4-a has no machine type 'n9-huge'",
            "machine-types list",
        ),
        (
            {"machine_type": "t2a-standard-4"},
            "gcp.image: debian-12-bookworm-v20261010 is for X86_64, machine type t2a-standard-4 is ARM64",
            "choose another image",
        ),
        (
            {"accelerator": "nvidia-tesla-t5"},
            "gcp.accelerator: zone europe-west4-a has no 'nvidia-tesla-t5', did you mean nvidia-tesla-t4?",
            "there are nvidia-l4, nvidia-tesla-t4",
        ),
        (
            {"accelerator": T4, "accelerators": 8, "machine_type": "e2-standard-4"},
            "gcp.accelerator: nvidia-tesla-t4 asked for, e2-standard-4 takes no GPUs",
            "an n1 machine type",
        ),
        (
            {"accelerator": T4, "machine_type": "g2-standard-8"},
            "gcp.accelerator: nvidia-tesla-t4 asked for, g2-standard-8 has nvidia-l4 built in",
            "leave gcp.accelerator out",
        ),
        (
            {"accelerator": T4, "accelerators": 8},
            "gcp.accelerators: 8 asked for, an instance takes 4 nvidia-tesla-t4",
            "ask for 4 or fewer",
        ),
        (
            {"disk_type": "pd-ballanced"},
            "gcp.disk_type: zone europe-west4-a has no 'pd-ballanced', did you mean pd-balanced?",
            "there are hyperdisk-balanced, pd-balanced, pd-ssd",
        ),
        ({"compact": True}, "gcp.compact: n1-standard-8 cannot be placed compactly", "gcp.compact: false"),
        (
            {"machine_type": "c4-standard-8"},
            "gcp.disk_type: c4-standard-8 cannot have a disk of type pd-balanced",
            "set gcp.disk_type: hyperdisk-balanced",
        ),
        (
            {"head_machine_type": "n4-custom-4-8192", "disk_type": "pd-ssd"},
            "gcp.disk_type: n4-custom-4-8192 cannot have a disk of type pd-ssd",
            "set gcp.disk_type: hyperdisk-balanced",
        ),
    ],
)
def test_unknown_names_are_refused_with_key_value_and_remedy(
    cloud: StandIn, changes: dict[str, Any], message: str, hint: str
) -> None:
    listed = findings(**changes)
    hints = {finding.message: finding.hint for finding in listed}
    assert hint in hints[message]
    assert len(listed) == len(hints)  # no finding is listed twice


def test_all_problems_are_found_at_once(cloud: StandIn) -> None:
    cloud.permissions = ["compute.instances.create"]
    cloud.limit(PLACE, CPUS=(8, 0))
    cloud.items[IMAGE]["diskSizeGb"] = "200"
    node(cloud, "demo-worker-0", **marked("other"))
    keys = [finding.message.partition(":")[0] for finding in findings(accelerator="nvidia-x", compact=True)]
    assert keys == [
        "gcp.project",
        "gcp.disk_size",
        "zone europe-west4-a has instances of these names that are not this cluster's",
        "gcp.compact",
        "gcp.accelerator",
        "1 of 2 nodes fit",
    ]


@pytest.mark.parametrize(
    ("nodes", "changes", "quotas", "message"),
    [
        (
            8,
            {},
            {"CPUS": (64, 16)},
            "6 of 8 nodes fit: CPUS quota of europe-west4 64, in use 16, needed 64",
        ),
        (
            2,
            {"machine_type": "n2-standard-8"},
            {"N2_CPUS": (8, 8)},
            "0 of 2 nodes fit: N2_CPUS quota of europe-west4 8, in use 8, needed 16",
        ),
        (
            3,
            {"accelerator": T4, "accelerators": 2},
            {"NVIDIA_T4_GPUS": (4, 0)},
            "2 of 3 nodes fit: NVIDIA_T4_GPUS quota of europe-west4 4, in use 0, needed 6",
        ),
        (
            2,
            {"accelerator": T4, "spot": True},
            {},
            "1 of 2 nodes fit: PREEMPTIBLE_NVIDIA_T4_GPUS quota of europe-west4 1, in use 0, needed 2",
        ),
        (
            2,
            {"spot": True},
            {"PREEMPTIBLE_CPUS": (8, 0)},
            "1 of 2 nodes fit: PREEMPTIBLE_CPUS quota of europe-west4 8, in use 0, needed 16",
        ),
        (
            2,
            {"spot": True},
            {"CPUS": (24, 16)},
            "1 of 2 nodes fit: CPUS quota of europe-west4 24, in use 16, needed 16",
        ),
        (
            4,
            {"disk_size": 100},
            {"SSD_TOTAL_GB": (500, 250)},
            "2 of 4 nodes fit: SSD_TOTAL_GB quota of europe-west4 500, in use 250, needed 400",
        ),
        (2, {}, {"INSTANCES": (3, 3)}, "0 of 2 nodes fit: INSTANCES quota of europe-west4 3, in use 3, needed 2"),
        (
            2,
            {},
            {"IN_USE_ADDRESSES": (4, 4)},
            "0 of 2 nodes fit: IN_USE_ADDRESSES quota of europe-west4 4, in use 4, needed 1",
        ),
    ],
)
def test_too_small_quota_is_refused_with_nodes_that_fit(
    cloud: StandIn, nodes: int, changes: dict[str, Any], quotas: dict[str, tuple[int, int]], message: str
) -> None:
    cloud.limit(PLACE, **quotas)
    cloud.limit(HERE, GPUS_ALL_REGIONS=(100, 0))
    [finding] = findings(nodes=nodes, **changes)
    assert finding.message == message
    assert "iam-admin/quotas?project=demo-project" in finding.hint


@pytest.mark.parametrize(
    ("gpu", "metric"),
    [
        ("nvidia-h100-80gb", "NVIDIA_H100_GPUS"),
        ("nvidia-h100-mega-80gb", "NVIDIA_H100_MEGA_GPUS"),
        ("nvidia-h200-141gb", "NVIDIA_H200_GPUS"),
        ("nvidia-b200", "NVIDIA_B200_GPUS"),
        ("nvidia-a100-80gb", "NVIDIA_A100_80GB_GPUS"),
        ("nvidia-tesla-a100", "NVIDIA_A100_GPUS"),
        ("nvidia-tesla-t4-vws", "NVIDIA_T4_VWS_GPUS"),
    ],
)
def test_gpu_quota_has_googles_name(gpu: str, metric: str) -> None:
    assert quota_checks.gpu_metric(gpu, False, {}) == metric


def test_unlisted_gpu_quota_is_noted_because_it_may_be_zero(cloud: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert findings(accelerator=T4) == []
    assert "is not listed" not in capsys.readouterr().err
    assert findings(machine_type="g2-standard-8") == []
    assert "quota NVIDIA_L4_GPUS is not listed by Google: it may be 0" in capsys.readouterr().err


def test_quotas_of_the_project_count_too(cloud: StandIn) -> None:
    cloud.limit(HERE, NETWORKS=(5, 5), CPUS_ALL_REGIONS=(20, 8))
    assert [finding.message for finding in findings()] == [
        "1 of 2 nodes fit: CPUS_ALL_REGIONS quota of project demo-project 20, in use 8, needed 16",
        "0 of 2 nodes fit: NETWORKS quota of project demo-project 5, in use 5, needed 1",
    ]
    cloud.limit(HERE, NETWORKS=(5, 4))
    assert "`--nodes 1`" in findings()[0].hint


def test_existing_nodes_need_no_quota_and_stopped_ones_only_cores(cloud: StandIn) -> None:
    deployed(cloud)
    cloud.limit(PLACE, CPUS=(16, 16), INSTANCES=(2, 2), IN_USE_ADDRESSES=(1, 1), STATIC_ADDRESSES=(1, 1))
    cloud.limit(HERE, NETWORKS=(1, 1), FIREWALLS=(2, 1))
    assert findings(record()) == []
    cloud.items[f"{INSTANCES}/demo-worker-0"]["status"] = "TERMINATED"
    assert [f.message for f in findings(record())] == [
        "1 of 2 nodes fit: CPUS quota of europe-west4 16, in use 16, needed 8"
    ]


def test_cluster_name_of_another_state_directory_is_refused(cloud: StandIn) -> None:
    deployed(cloud)
    [finding] = findings()
    assert "instance demo-head" in finding.message
    assert "teardown --orphans --cluster demo" in finding.hint


def test_other_zone_than_the_deployed_one_is_refused(cloud: StandIn) -> None:
    deployed(cloud)
    cloud.put(f"{HERE}/zones/europe-west4-b", region=cloud.items[f"{HERE}/zones/{ZONE}"]["region"])
    cloud.put(f"{HERE}/zones/europe-west4-b/machineTypes/n1-standard-8", guestCpus=8)
    cloud.put(f"{HERE}/zones/europe-west4-b/diskTypes/pd-balanced")
    messages = [finding.message for finding in findings(record(), zone="europe-west4-b")]
    assert messages == ["gcp.zone: europe-west4-b asked for, the cluster is deployed in europe-west4-a"]


def test_other_subnet_than_the_deployed_one_is_refused(cloud: StandIn) -> None:
    deployed(cloud)
    before = record()
    before.variables["gcp"]["subnet"] = "10.77.0.0/24"
    assert findings(before) == []
    [finding] = findings(before, subnet="10.78.0.0/24")
    assert finding.message == "gcp.subnet: 10.78.0.0/24 asked for, the cluster is deployed in 10.77.0.0/24"
    assert "teardown --cluster demo" in finding.hint


def test_removed_image_matters_only_for_new_nodes(cloud: StandIn) -> None:
    deployed(cloud)
    del cloud.items[IMAGE]
    assert findings(record()) == []
    assert gcp.variables(config(), record())["image"].endswith(IMAGE)
    [finding] = findings(record(), nodes=3)
    assert "that the nodes were created from is gone" in finding.message


@pytest.mark.parametrize(
    ("state", "problem"), [({"status": "FAILED"}, "no longer"), ({"deprecated": {"state": "OBSOLETE"}}, "no longer")]
)
def test_unusable_image_is_refused(cloud: StandIn, state: dict[str, Any], problem: str) -> None:
    cloud.items[IMAGE].update(state)
    assert problem in findings()[0].message


def test_missing_permissions_are_named_if_they_can_be_tested(cloud: StandIn) -> None:
    cloud.permissions = []
    [finding] = findings()
    assert "iam.serviceAccounts.create" in finding.message
    assert "roles/compute.admin" in finding.hint
    cloud.refused["testIamPermissions"] = refusal(403, "API has not been used", "accessNotConfigured")
    assert findings() == []


def test_only_permissions_that_the_deploy_uses_are_required(cloud: StandIn, stand_in: Tool) -> None:
    stand_in("gcloud", "echo a-token")
    cloud.permissions = [permission for permission in NEEDED if permission != "compute.disks.create"]
    assert (
        "you lack permissions in demo-project: compute.addresses.create, compute.disks.create" in findings()[0].message
    )
    behind = findings(iap=True, compact=True, machine_type="g2-standard-8")[0].message
    assert behind.endswith("compute.disks.create, compute.resourcePolicies.create")


def test_iap_without_an_account_of_gcloud_is_refused(cloud: StandIn, stand_in: Tool) -> None:
    log = stand_in("gcloud", 'echo "$@" >> "$0.log"; exit 1').with_name("gcloud.log")
    assert findings() == []
    assert not log.exists()
    [finding] = findings(iap=True)
    assert finding.message.startswith("gcp.iap: gcloud has no account that can open tunnels")
    assert "`gcloud auth login`" in finding.hint
    assert log.read_text() == "auth print-access-token --quiet\n"


def test_iap_needs_gcloud_on_the_path(cloud: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert [finding.message for finding in findings(iap=True)] == ["gcloud is not on the PATH"]


@pytest.mark.parametrize(
    "name", ["GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON"]
)
def test_variable_that_only_terraform_reads_is_refused(
    cloud: StandIn, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "a-service-account-or-key")
    [finding] = findings()
    assert finding.message.startswith(f"{name} is set")
    assert f"`unset {name}`" in finding.hint
    monkeypatch.setenv(name, "")
    assert findings() == []


def test_number_of_a_project_is_refused_with_its_id(cloud: StandIn) -> None:
    cloud.put("projects/123456", name=PROJECT)
    [finding] = findings(project="123456")
    assert (finding.message, finding.hint) == (
        "gcp.project: 123456 is the number of demo-project",
        "set gcp.project: demo-project",
    )


def test_forbidden_listing_is_reported_once(cloud: StandIn) -> None:
    cloud.refused["serviceAccounts"] = refusal(403, "Permission iam.serviceAccounts.list denied", "forbidden")
    cloud.permissions = []
    messages = [finding.message for finding in findings(record(), machine_type="n9-huge")]
    assert [message.partition(":")[0] for message in messages] == ["gcp.project", "Google refuses permission"]


def test_zone_that_is_down_is_refused(cloud: StandIn) -> None:
    cloud.items[f"{HERE}/zones/{ZONE}"]["status"] = "DOWN"
    assert [finding.message for finding in findings()] == ["gcp.zone: europe-west4-a is DOWN now"]


def test_missing_licence_files_are_found_before_costs_arise(cloud: StandIn, tmp_path: Path) -> None:
    token = tmp_path / "client.tok"
    token.touch()
    licence = {"vgpu_installer": "guest.run", "vgpu_token": str(token)}
    settings = config(accelerator="nvidia-tesla-t4-vws").model_copy(update={"gpu": Gpu.model_validate(licence)})
    with pytest.raises(PreflightError) as caught:
        plan.preflight(settings)
    messages = [finding.message for finding in caught.value.findings if finding.message.startswith("gpu.")]
    assert messages == ["gpu.vgpu_installer: guest.run: no such file"]


def test_machine_type_of_another_architecture_is_refused_for_existing_nodes(cloud: StandIn) -> None:
    deployed(cloud)
    (finding,) = findings(record(), machine_type="t2a-standard-4")
    assert (
        finding.message == "gcp.image: debian-12-bookworm-v20261010 is for X86_64, machine type t2a-standard-4 is ARM64"
    )
