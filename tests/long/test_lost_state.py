"""Terraform's state lost, damaged or old under a cluster that trains: nothing of the cluster is lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import Cli, docker, left_on_engine
from tests.e2e.training import HEAD, WORKER

WAITS = Path(__file__).parents[1] / "e2e" / "scripts" / "waits.py"
DEPLOY = ("deploy", "--no-monitoring")
OLD = "old"


class Standing:
    """A cluster with a file in /shared and a run under way."""

    def __init__(self, cli: Cli) -> None:
        self.cli, self.place = cli, cli.state / "orchestrator" / "e2e"
        self.own = self.place / "terraform" / "local" / "terraform.tfstate"
        cli(*DEPLOY, "--nodes", "1")
        self.old = shutil.copy(self.own, self.place / OLD)
        cli(*DEPLOY, "--nodes", "2")
        cli("ssh", HEAD, "--", "tee", "/shared/precious", "/dev/null")
        self.containers = self.on_engine()
        cli("run", "--detach", "--", "python", str(WAITS))

    def on_engine(self) -> list[str]:
        return sorted(docker("ps", "--quiet", "--no-trunc", "--filter", "label=orchestrator.cluster=e2e"))

    def damage(self, how: str | None) -> None:
        if how is None:
            self.own.unlink()
        elif how == OLD:
            shutil.copy(self.old, self.own)
        else:
            self.own.write_text(how)

    def require_whole(self) -> None:
        assert self.on_engine() == self.containers
        assert self.cli("ssh", HEAD, "--", "ls", "/shared/precious").stdout.strip() == "/shared/precious"
        assert self.cli.json("runs")[-1]["state"] == "running"


@pytest.fixture(scope="module")
def standing(cli: Cli) -> Iterator[Standing]:
    yield Standing(cli)
    assert cli.json("teardown")["left"] == []
    assert left_on_engine() == []


@pytest.mark.parametrize("how", [None, '{"version": 4, "resou', OLD])
def test_a_deploy_restores_the_state_and_changes_no_node(standing: Standing, how: str | None) -> None:
    standing.damage(how)
    assert list(standing.cli.json(*DEPLOY)["cluster"]["nodes"]) == [HEAD, WORKER]
    standing.require_whole()


def test_a_deploy_that_no_state_can_tell_of_the_cluster_is_refused(standing: Standing) -> None:
    away = standing.place.with_name("away")
    standing.place.joinpath("terraform").rename(away)
    copy = standing.place / "terraform.tfstate.copy"
    content = copy.read_bytes()
    copy.unlink()
    for _ in range(2):  # a refused deploy leaves everything as it was
        message = standing.cli(*DEPLOY, "--nodes", "1", code=1).stderr
        assert "does not record" in message
        assert "volume e2e-shared" in message
        standing.require_whole()
    copy.write_bytes(content)
    assert "is using the cluster" in standing.cli(*DEPLOY, code=1).stderr  # its root is gone: it may be another one
    standing.require_whole()
    away.rename(standing.place / "terraform")
    standing.own.unlink()
    standing.cli(*DEPLOY)
    standing.require_whole()


def test_a_teardown_without_any_state_leaves_nothing(standing: Standing) -> None:
    shutil.rmtree(standing.place / "terraform")
    (standing.place / "terraform.tfstate.copy").unlink()
    assert standing.cli.json("teardown")["left"] == []
    assert left_on_engine() == []
