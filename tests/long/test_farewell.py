"""A node that is shut down, as a cloud does that takes it back, takes its run to a checkpoint first."""

import time

from tests.e2e.command import Cli, docker
from tests.e2e.training import TRAIN, WORKER


def test_a_run_whose_node_is_shut_down_leaves_a_checkpoint_and_goes_on_when_the_node_is_back(cli: Cli) -> None:
    cli("deploy", "--nodes", "2", "--no-monitoring")
    with cli.start(*TRAIN, "--epochs", "100") as training:
        assert training.stdout
        next(line for line in training.stdout if "training and" in line)
        time.sleep(3)
        docker("exec", WORKER, "systemctl", "poweroff")
        said = training.communicate(timeout=90)[0]
        assert training.returncode == 75, said
    (stopped,) = [run for run in cli.json("runs") if run["state"] == "stopped"]
    docker("stop", "--time", "1", WORKER)
    cli("deploy")
    found = cli.json("train", "--resume", stopped["id"], "--max-time", "20s")
    assert (found["ended"], found["resumed_from"]) == ("max-time", stopped["id"])
