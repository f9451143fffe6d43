"""A cluster that loses its head, grows and shrinks."""

import pytest

from tests.e2e.command import Cli, docker, wait_for
from tests.e2e.sites import Site
from tests.e2e.training import HEAD, SECOND, TRAIN, WORKER, killed_while_training


@pytest.fixture(scope="module", autouse=True)
def deployed(cli: Cli) -> None:
    cli("deploy", "--nodes", "2", "--no-monitoring")


def test_head_killed_during_training_ends_the_run_with_its_name(cli: Cli, site: Site) -> None:
    output = killed_while_training(cli, site, HEAD, 240.0)  # the command tries to reconnect for two minutes
    assert "reconnecting for 2 minutes" in output
    assert f"the head does not answer: {HEAD}" in output
    cli("deploy", "--no-monitoring")
    assert cli.json("runs")[-1]["state"] == "lost"
    wait_for("the worker to be free", lambda: cli.processes(WORKER) == [])


def test_cluster_grows_trains_and_shrinks(cli: Cli) -> None:
    assert list(cli.json("deploy", "--nodes", "3", "--no-monitoring")["cluster"]["nodes"]) == [HEAD, WORKER, SECOND]
    assert len(cli("hostfile").stdout.splitlines()) == 3
    assert cli.json(*TRAIN, "--steps", "5")["world"]["hosts"] == [HEAD, WORKER, SECOND]
    assert [rank["host"] for rank in cli.json("check", "--np", "2")["ranks"]] == [HEAD, WORKER]
    assert list(cli.json("deploy", "--nodes", "1", "--no-monitoring")["cluster"]["nodes"]) == [HEAD]
    assert docker("ps", "--filter", "label=orchestrator.cluster=e2e", "--format", "{{.Names}}") == [HEAD]
    assert cli.json("teardown")["left"] == []
