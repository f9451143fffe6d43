"""Data sets and training commands of the story."""

import time
from pathlib import Path

from tests.e2e.command import Cli
from tests.e2e.sites import Site

HEAD, WORKER, SECOND = "e2e-head", "e2e-worker-0", "e2e-worker-1"
MNIST = str(Path(__file__).parents[1] / "data" / "mnist")
ON_MNIST = ("--dataset", "mnist", "--data", MNIST)
TRAIN = ("train", "resnet20", *ON_MNIST)


def killed_while_training(cli: Cli, site: Site, node: str, seconds: float = 60.0) -> str:
    """Kill ``node`` during training and return the output of the run, which must end within some ``seconds``."""
    with cli.start(*TRAIN, "--epochs", "100") as training:
        assert training.stdout
        next(line for line in training.stdout if "training and" in line)
        time.sleep(2)
        site.kill_node(node)
        lost = time.monotonic()
        output = training.communicate(timeout=seconds * site.patience)[0]
        assert training.returncode == 1, output
        assert time.monotonic() - lost < seconds * site.patience
    return output
