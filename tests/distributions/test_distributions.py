"""A cluster with one machine of every supported distribution, where the deploy installs everything.

The machines are containers, whose kernel has no NFS: e2e-openstack tests that it is served and mounted.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributions.machines import RELEASES, Release, machine_name, user_of_machines
from tests.e2e.command import Cli, docker

OWNER = "e2e-distributions"
CLUSTER = "e2e-mixed"
MNIST = str(Path(__file__).parents[1] / "data" / "mnist")
EVERYWHERE = ("docker", "trainer", "trainer-exporter", "prometheus-node-exporter")
ON_THE_HEAD = ("prometheus", "prometheus-alertmanager", "notebook")
NODES = [f"{CLUSTER}-head", *(f"{CLUSTER}-worker-{number}" for number in range(len(RELEASES) - 1))]


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """Return the command of a user with one fresh machine of each release."""
    with user_of_machines(OWNER, RELEASES, tmp_path_factory.mktemp("mixed")) as cli:
        yield cli


def name_of(release: Release) -> str:
    return machine_name(OWNER, release)


def test_each_machine_has_its_release(user: Cli) -> None:
    systems = [
        docker("exec", name_of(release), "sh", "-c", ". /etc/os-release; echo $ID $VERSION_ID") for release in RELEASES
    ]
    assert systems == [[release.name] for release in RELEASES]


def test_deploy_installs_everything_on_fresh_machines(user: Cli) -> None:
    cluster = user.json("deploy", cluster=CLUSTER)["cluster"]
    assert list(cluster["nodes"]) == NODES
    assert cluster["trainer"] == "container"
    for release in RELEASES:
        units = EVERYWHERE + (ON_THE_HEAD if release is RELEASES[0] else ())
        assert docker("exec", name_of(release), "systemctl", "is-active", *units) == ["active"] * len(units)


def test_second_deploy_changes_nothing(user: Cli) -> None:
    assert user.json("deploy", cluster=CLUSTER)["changed"] == dict.fromkeys(NODES, 0)


def test_all_nodes_are_healthy(user: Cli) -> None:
    health = user.json("status", cluster=CLUSTER)["health"]
    assert {name: [check for check in checks if not check["ok"]] for name, checks in health.items()} == {
        name: [] for name in NODES
    }


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_check_proves_allreduce_on_every_rank(user: Cli, controller: str) -> None:
    check = user.json("check", "--controller", controller, cluster=CLUSTER)
    assert [rank["host"] for rank in check["ranks"]] == [name_of(release) for release in RELEASES]
    assert {rank["allreduce_sum"] for rank in check["ranks"]} == {10.0}


def test_lenet_learns_digits_on_all_nodes(user: Cli) -> None:
    results = user.json("train", "lenet", "--dataset", "mnist", "--data", MNIST, "--epochs", "2", cluster=CLUSTER)
    assert results["world"]["size"] == len(RELEASES)
    assert results["epochs"][-1]["test"]["top1"] >= 0.9


def test_all_nodes_are_monitored(user: Cli) -> None:
    nodes = user.json("top", "--once", cluster=CLUSTER)["nodes"]
    assert {node["node"]: node["up"] for node in nodes} == dict.fromkeys(NODES, True)


def test_teardown_removes_services_and_accounts(user: Cli) -> None:
    receipt = user.json("teardown", cluster=CLUSTER)
    assert (len(receipt["made"]), receipt["left"]) == (len(RELEASES), [])
    listing = "ls -d /opt/orchestrator /etc/orchestrator /etc/systemd/system/trainer.service; id orchestrator; true"
    for release in RELEASES:
        assert docker("exec", name_of(release), "sh", "-c", f"({listing}) 2> /dev/null") == []
        assert docker("exec", name_of(release), "docker", "image", "ls", "--quiet") == []
