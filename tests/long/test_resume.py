"""Resumed runs equal uninterrupted ones bit for bit: after a kill, after a stop, and on another cluster."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Cli, docker, wait_for
from tests.e2e.sites import Site
from tests.e2e.training import HEAD, MNIST, TRAIN, WORKER


@pytest.fixture(scope="module")
def trained(cli: Cli, site: Site) -> Any:
    """Return the results of a run without interruption."""
    cli("deploy", "--nodes", "2", "--no-monitoring")
    return cli.json(*TRAIN, *site.train_options)


def epochs(results: Any) -> list[dict[str, Any]]:
    """Return the fields of epochs that do not depend on time."""
    fields = ("epoch", "steps", "learning_rate", "train", "test", "weights_sha256")
    return [{key: epoch[key] for key in fields} for epoch in results["epochs"]]


def in_run(run: str, command: str) -> str:
    """Run ``command`` in the run's directory by Docker: `orchestrator ssh` would use a core for a second."""
    return "\n".join(docker("exec", HEAD, "sh", "-c", f"cd /shared/runs/{run} && {command} || true"))


def test_run_with_killed_rank_resumes_bit_for_bit(cli: Cli, site: Site, trained: Any) -> None:
    run = cli(*TRAIN, *site.train_options, "--detach").stdout.strip()
    assert "is still running" in cli("train", "--resume", run, code=1).stderr
    wait_for("the first epoch", lambda: "epoch-0001" in in_run(run, "ls checkpoints"), 120)
    cli("ssh", WORKER, "--", "pkill", "-KILL", "-f", "[o]rchestrator.trainer.train")
    wait_for("its end", lambda: cli.json("runs")[-1]["state"] == "failed")
    resumed = cli.json("train", "--resume", run)
    assert epochs(resumed) == epochs(trained)
    assert (resumed["resumed_from"], resumed["config"]["restarts"]) == (run, 1)


def test_run_stopped_within_an_epoch_resumes_bit_for_bit(cli: Cli, site: Site, trained: Any) -> None:
    before = {run["id"] for run in cli.json("runs")}
    with cli.start(*TRAIN, *site.train_options) as training:
        wait_for("the run", lambda: {run["id"] for run in cli.json("runs")} != before)
        (run,) = {run["id"] for run in cli.json("runs")} - before
        wait_for("a step", lambda: "epoch 1/2  step" in in_run(run, "cat log"), 120)  # `logs` hides such lines
        stopped = cli("stop", run)
        output = training.communicate(timeout=60)[0]
        assert training.returncode == 75, output
    assert f"run {run}: stopped" in stopped.stdout
    assert f"train --resume {run}" in stopped.stderr
    assert [cli.processes(node) for node in (HEAD, WORKER)] == [[], []]
    assert "epoch-0001-step-" in in_run(run, "ls checkpoints")
    assert epochs(cli.json("train", "--resume", run)) == epochs(trained)


def _stopped_within_an_epoch(runs: Path) -> str:
    """Return the run that was stopped within an epoch."""
    for path in runs.glob("*/checkpoints/epoch-0001-step-*"):
        config = json.loads((path.parents[1] / "config.json").read_text())
        if (config["epochs"], config["steps"]) == (2, None):
            return path.parents[1].name
    pytest.fail("no run was stopped within its first epoch")


def test_run_resumes_bit_for_bit_on_a_later_cluster(cli: Cli, tmp_path: Path, trained: Any) -> None:
    stopped = _stopped_within_an_epoch(cli.state / "orchestrator" / "e2e" / "runs")
    copied = tmp_path / "mnist"
    shutil.copytree(MNIST, copied, copy_function=shutil.copyfile)  # new modification times, so other files
    cli("teardown")
    cli("deploy", "--nodes", "2", "--no-monitoring")
    again = ("train", "--resume", stopped, "--data")
    assert f"{copied} holds another" in cli(*again, str(copied), code=1).stderr.replace("\n", " ")
    assert epochs(cli.json(*again, MNIST)) == epochs(trained)
    assert cli.json("teardown")["left"] == []
