"""A head that launches runs without a rank of its own, like a head without GPUs and workers with GPUs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.command import Cli
from tests.e2e.sites import Site
from tests.e2e.training import HEAD, ON_MNIST, WORKER, killed_while_training


@pytest.fixture(scope="module", autouse=True)
def deployed(cli: Cli) -> Iterator[None]:
    """Deploy, and write into the state that the worker has a GPU, which it does not need to compute."""
    cli("deploy", "--nodes", "2", "--no-monitoring")
    path = cli.state / "orchestrator" / "e2e" / "state.json"
    state: dict[str, Any] = json.loads(path.read_text())
    state["cluster"]["nodes"][WORKER]["gpus"] = 1
    path.write_text(json.dumps(state))
    yield
    cli("teardown")


def test_head_is_not_in_the_hostfile(cli: Cli) -> None:
    worker = cli.json("status")["cluster"]["nodes"][WORKER]["private_address"]
    assert cli.json("hostfile") == [{"address": worker, "slots": 1}]


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_ranks_run_on_the_worker_only(cli: Cli, controller: str) -> None:
    check = cli.json("check", "--controller", controller)
    assert [rank["host"] for rank in check["ranks"]] == [WORKER]


def test_files_of_rank_0_on_the_worker_are_fetched_from_the_head(cli: Cli) -> None:
    results = cli.json("train", "lenet", *ON_MNIST, "--epochs", "1")
    assert results["world"] == {"size": 1, "hosts": [WORKER]}
    assert (cli.state / "orchestrator" / "e2e" / "runs" / results["run"] / "checkpoints" / "epoch-0001").is_dir()


def test_killed_worker_with_rank_0_is_named(cli: Cli, site: Site) -> None:
    assert f"node {WORKER} stopped answering" in killed_while_training(cli, site, WORKER)
    assert cli.processes(HEAD) == []
