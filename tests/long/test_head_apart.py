"""A head that launches and has no rank itself: what a head without GPUs is to workers with some."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.command import Cli
from tests.e2e.sites import Site
from tests.e2e.training import HEAD, ON_MNIST, WORKER, killed_while_training


@pytest.fixture(scope="module", autouse=True)
def apart(cli: Cli) -> Iterator[None]:
    """A cluster whose state says that its worker has GPUs, which no machine here has: it computes without."""
    cli("deploy", "--nodes", "2", "--no-monitoring")
    path = cli.state / "orchestrator" / "e2e" / "state.json"
    state: dict[str, Any] = json.loads(path.read_text())
    state["cluster"]["nodes"][WORKER]["gpus"] = 1
    path.write_text(json.dumps(state))
    yield
    cli("teardown")


def test_the_head_is_not_in_the_hostfile(cli: Cli) -> None:
    worker = cli.json("status")["cluster"]["nodes"][WORKER]["private_address"]
    assert cli.json("hostfile") == [{"address": worker, "slots": 1}]


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_ranks_run_on_the_worker_alone(cli: Cli, controller: str) -> None:
    check = cli.json("check", "--controller", controller)
    assert [rank["host"] for rank in check["ranks"]] == [WORKER]


def test_what_rank_0_leaves_on_the_worker_is_fetched_from_the_head(cli: Cli) -> None:
    results = cli.json("train", "lenet", *ON_MNIST, "--epochs", "1")
    assert results["world"] == {"size": 1, "hosts": [WORKER]}
    assert (cli.state / "orchestrator" / "e2e" / "runs" / results["run"] / "checkpoints" / "epoch-0001").is_dir()


def test_the_worker_that_rank_0_was_on_is_named_where_it_goes(cli: Cli, site: Site) -> None:
    assert f"node {WORKER} stopped answering" in killed_while_training(cli, site, WORKER)
    assert cli.processes(HEAD) == []
