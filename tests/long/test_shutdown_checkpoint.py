"""A run writes a checkpoint before its node shuts down, as when a cloud reclaims a machine."""

import time

from tests.e2e.command import Cli, docker
from tests.e2e.training import TRAIN, WORKER


def test_shutdown_of_a_node_leaves_a_checkpoint_to_resume(cli: Cli) -> None:
    cli("deploy", "--nodes", "2", "--no-monitoring")
    with cli.start(*TRAIN, "--epochs", "100") as training:
        assert training.stdout
        next(line for line in training.stdout if "training and" in line)
        time.sleep(3)
        docker("exec", WORKER, "systemctl", "poweroff")
        output = training.communicate(timeout=90)[0]
        assert training.returncode == 75, output
    stopped = cli.json("runs")[-1]
    assert stopped["state"] == "stopped"
    docker("stop", "--time", "1", WORKER)
    cli("deploy")
    results = cli.json("train", "--resume", stopped["id"], "--max-time", "20s")
    assert (results["ended"], results["resumed_from"]) == ("max-time", stopped["id"])
