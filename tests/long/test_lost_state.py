"""Terraform's state is lost, damaged or outdated while a cluster trains, and no part of the cluster is lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import Cli, docker, resources_on_engine
from tests.e2e.training import HEAD, WORKER

WAITS = Path(__file__).parents[1] / "e2e" / "scripts" / "waits.py"
DEPLOY = ("deploy", "--no-monitoring")
OLD = "old"


class DeployedCluster:
    """A cluster with a file in /shared and a run in progress."""

    def __init__(self, cli: Cli) -> None:
        self.cli, self.state_dir = cli, cli.state / "orchestrator" / "e2e"
        self.state_file = self.state_dir / "terraform" / "local" / "terraform.tfstate"
        cli(*DEPLOY, "--nodes", "1")
        self.old = shutil.copy(self.state_file, self.state_dir / OLD)
        cli(*DEPLOY, "--nodes", "2")
        cli("ssh", HEAD, "--", "tee", "/shared/precious", "/dev/null")
        self.containers = self.containers_on_engine()
        cli("run", "--detach", "--", "python", str(WAITS))

    def containers_on_engine(self) -> list[str]:
        return sorted(docker("ps", "--quiet", "--no-trunc", "--filter", "label=orchestrator.cluster=e2e"))

    def damage(self, damage: str | None) -> None:
        if damage is None:
            self.state_file.unlink()
        elif damage == OLD:
            shutil.copy(self.old, self.state_file)
        else:
            self.state_file.write_text(damage)

    def require_unharmed(self) -> None:
        assert self.containers_on_engine() == self.containers
        assert self.cli("ssh", HEAD, "--", "ls", "/shared/precious").stdout.strip() == "/shared/precious"
        assert self.cli.json("runs")[-1]["state"] == "running"


@pytest.fixture(scope="module")
def deployed(cli: Cli) -> Iterator[DeployedCluster]:
    yield DeployedCluster(cli)
    assert cli.json("teardown")["left"] == []
    assert resources_on_engine() == []


@pytest.mark.parametrize("damage", [None, '{"version": 4, "resou', OLD])
def test_deploy_restores_state_and_changes_no_node(deployed: DeployedCluster, damage: str | None) -> None:
    deployed.damage(damage)
    assert list(deployed.cli.json(*DEPLOY)["cluster"]["nodes"]) == [HEAD, WORKER]
    deployed.require_unharmed()


def test_deploy_without_any_usable_state_is_refused(deployed: DeployedCluster) -> None:
    moved_root = deployed.state_dir.with_name("away")
    deployed.state_dir.joinpath("terraform").rename(moved_root)
    copy = deployed.state_dir / "terraform.tfstate.copy"
    content = copy.read_bytes()
    copy.unlink()
    for _ in range(2):  # a refused deploy changes nothing
        message = deployed.cli(*DEPLOY, "--nodes", "1", code=1).stderr
        assert "does not record" in message
        assert "volume e2e-shared" in message
        deployed.require_unharmed()
    copy.write_bytes(content)
    assert "is using the cluster" in deployed.cli(*DEPLOY, code=1).stderr  # without its root, the run may be another's
    deployed.require_unharmed()
    moved_root.rename(deployed.state_dir / "terraform")
    deployed.state_file.unlink()
    deployed.cli(*DEPLOY)
    deployed.require_unharmed()


def test_teardown_without_any_state_leaves_nothing(deployed: DeployedCluster) -> None:
    shutil.rmtree(deployed.state_dir / "terraform")
    (deployed.state_dir / "terraform.tfstate.copy").unlink()
    assert deployed.cli.json("teardown")["left"] == []
    assert resources_on_engine() == []
