"""Training that is killed or stopped, and goes on: two nodes, through the installed command."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Cli, wait_for

MNIST = str(Path(__file__).parent.parent / "data" / "mnist")
HEAD, WORKER = "e2e-head", "e2e-worker-0"
TRAIN = ("train", "resnet20", "--dataset", "mnist", "--data", MNIST, "--epochs", "2")


@pytest.fixture(scope="module", autouse=True)
def cluster(cli: Cli) -> Iterator[None]:
    cli("deploy", "--nodes", "2", "--no-monitoring")
    yield
    cli("teardown")


@pytest.fixture(scope="module")
def straight(cli: Cli) -> list[dict[str, Any]]:
    """The epochs of a run that is never stopped."""
    return epochs(cli.json(*TRAIN))


def epochs(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What does not depend on the time that things took."""
    kept = ("epoch", "steps", "learning_rate", "train", "test", "weights_sha256")
    return [{key: epoch[key] for key in kept} for epoch in results["epochs"]]


def checkpoints(cli: Cli, run: str) -> str:
    return cli("ssh", HEAD, "--", "sh", "-c", f"ls /shared/runs/{run}/checkpoints || true").stdout


def test_a_run_of_which_a_rank_was_killed_goes_on_bit_for_bit(cli: Cli, straight: list[dict[str, Any]]) -> None:
    run = cli(*TRAIN, "--detach").stdout.strip()
    wait_for("the first epoch", lambda: "epoch-0001" in checkpoints(cli, run), 120 * cli.patience)
    cli("ssh", WORKER, "--", "pkill", "-KILL", "-f", "[o]rchestrator.trainer.train")
    wait_for("its end", lambda: cli.json("runs")[-1]["state"] == "failed", 60 * cli.patience)
    resumed = cli.json("train", "--resume", run)
    assert epochs(resumed) == straight
    assert (resumed["resumed_from"], resumed["config"]["restarts"]) == (run, 1)


def test_a_run_that_is_stopped_within_an_epoch_goes_on_bit_for_bit(cli: Cli, straight: list[dict[str, Any]]) -> None:
    run = cli(*TRAIN, "--detach").stdout.strip()
    log = ("ssh", HEAD, "--", "cat", f"/shared/runs/{run}/log")  # `logs` leaves out what only holds for a moment
    wait_for("a step", lambda: "epoch 1/2  step" in cli(*log).stdout, 120 * cli.patience)
    stopped = cli("stop", run)
    assert f"run {run}: stopped" in stopped.stdout
    assert f"train --resume {run}" in stopped.stderr
    assert [cli.processes(node) for node in (HEAD, WORKER)] == [[], []]
    assert "epoch-0001-step-" in checkpoints(cli, run)
    assert epochs(cli.json("train", "--resume", run)) == straight


def test_what_is_done_and_what_goes_on_is_not_resumed(cli: Cli) -> None:
    done = cli.json("runs")[-1]["id"]
    assert "train.epochs: 2: run" in cli("train", "--resume", done, code=2).stderr
    run = cli(*TRAIN, "--detach").stdout.strip()
    assert "is still going on" in cli("train", "--resume", run, code=1).stderr
    cli("stop", run)
