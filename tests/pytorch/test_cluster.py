"""A cluster whose nodes have PyTorch: deploy, run, switch the framework and back, tear down."""

import re
import shutil
from pathlib import Path

import pytest

from orchestrator.cluster import PYTHON
from tests.e2e.command import Cli
from tests.pytorch.conftest import CLUSTER, HEAD

SCRIPT = Path(__file__).parent / "scripts" / "synthetic_benchmark.py"
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "distribute" / "pytorch_ddp.py"
TRAINER = (("train", "lenet", "--dataset", "mnist"), ("data", "prepare", "imagenet"), ("data", "stage"))


@pytest.fixture(scope="module", autouse=True)
def deployed(cli: Cli) -> None:
    shutil.copy(SCRIPT, cli.state)
    cli("deploy", "--framework", "pytorch", "--nodes", "2", "--no-monitoring", cluster=CLUSTER)


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_horovod_script_trains_on_all_nodes(cli: Cli, controller: str) -> None:
    result = cli("run", "--controller", controller, "--", "python", SCRIPT.name, cluster=CLUSTER)
    assert "on 2 ranks, weights of all ranks are equal" in result.stdout


def test_example_of_a_distributed_script_trains_and_its_network_arrives(cli: Cli) -> None:
    """The example is on the page docs/guide/distribute-a-script.md."""
    result = cli("run", str(EXAMPLE), cluster=CLUSTER)
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss ([\d.]+)", result.stdout)]
    assert len(losses) == 3, "only one of the two ranks prints its epochs"
    assert losses[-1] < 0.3
    cli("results", cluster=CLUSTER)
    [saved] = (cli.state / "orchestrator" / CLUSTER).rglob("output/network.pt")
    assert saved.stat().st_size > 1000


def test_check_proves_the_cluster(cli: Cli) -> None:
    assert cli.json("check", cluster=CLUSTER)["expected_sum"] == 3.0


@pytest.mark.parametrize("words", TRAINER)
def test_trainer_is_refused_before_it_starts(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words, cluster=CLUSTER, code=2)
    assert f"the nodes of cluster '{CLUSTER}' have pytorch, the trainer needs tensorflow" in result.stderr


def test_deploy_switches_framework_and_keeps_shared_files(cli: Cli) -> None:
    """The last deploy switches back to PyTorch."""
    cli("ssh", HEAD, "--", "cp", "/etc/hostname", "/shared/proof", cluster=CLUSTER)
    for framework, module in (("tensorflow", "horovod.tensorflow"), ("pytorch", "horovod.torch")):
        cli("deploy", "--framework", framework, "--nodes", "2", "--no-monitoring", cluster=CLUSTER)
        cli("ssh", HEAD, "--", "test", "-s", "/shared/proof", cluster=CLUSTER)
        cli("ssh", HEAD, "--", PYTHON, "-c", f"import {module}", cluster=CLUSTER)
        assert cli.json("check", cluster=CLUSTER)["expected_sum"] == 3.0
