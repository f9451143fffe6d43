"""Every launcher of scripts that needs no other image or package, on a local cluster."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import launchers
from tests.e2e.command import Cli, docker, wait_for
from tests.e2e.launchers import SCRIPTS, Nodes
from tests.long.shared_nodes import CLUSTER

DISTRIBUTE = Path(__file__).parents[3] / "docs" / "examples" / "distribute"


@pytest.fixture(params=["horovod", "mpirun", "tensorflow", "plain"])
def nodes(cli: Cli, request: pytest.FixtureRequest) -> Nodes:
    return Nodes(cli, CLUSTER, request.param)


@pytest.mark.parametrize("requirement", launchers.REQUIREMENTS)
def test_launcher_meets_every_requirement(nodes: Nodes, requirement: Callable[[Nodes], None]) -> None:
    requirement(nodes)


@pytest.mark.parametrize("launcher", ["mpirun", "plain"])
def test_horovod_script_runs_without_horovodrun(cli: Cli, launcher: str) -> None:
    result = Nodes(cli, CLUSTER, launcher).run(SCRIPTS / "own_script.py", arguments=("--factor", "2"))
    assert "rank 0 of 2 greets: 6" in result.stdout
    assert "[rank 1] rank 1 of 2 greets: 6" in result.stdout


def test_launcher_is_chosen_by_the_imports_of_the_script(cli: Cli) -> None:
    result = Nodes(cli, CLUSTER, "auto").run(SCRIPTS / "multi_worker.py")
    assert "launcher: tensorflow (the script imports tensorflow.distribute" in result.stderr
    assert "2 replicas: [1.0, 2.0, 3.0, 4.0]" in result.stdout


@pytest.mark.parametrize("example", ["keras_horovod.py", "tensorflow_distribute.py"])
def test_example_of_a_distributed_script_trains_and_its_network_arrives(cli: Cli, example: str) -> None:
    result = Nodes(cli, CLUSTER, "auto").run(DISTRIBUTE / example)
    accuracies = [float(accuracy) for accuracy in re.findall(r" accuracy: ([\d.]+)", result.stdout)]
    assert len(accuracies) == 3, "only one of the two ranks prints its epochs"
    assert accuracies[-1] > 0.95
    cli("results", cluster=CLUSTER)
    [saved] = (cli.state / "orchestrator" / CLUSTER).rglob("output/network.*")
    assert saved.stat().st_size > 1000
    saved.unlink()


def test_parameter_servers_are_requested_and_train(cli: Cli) -> None:
    nodes = Nodes(cli, CLUSTER, "auto")
    assert "--parameter-servers 1" in nodes.run(SCRIPTS / "parameter_server.py", code=2).stderr
    result = nodes.run(SCRIPTS / "parameter_server.py", "--parameter-servers", "1")
    assert "trained by 2 workers: [1.0, 2.0, 3.0, 4.0]" in result.stdout
    assert nodes.processes_of_runs() == []


def test_ranks_of_train_have_user_variables_that_are_not_stored(cli: Cli) -> None:
    (cli.state / "training.env").write_text("TOKEN=moon-in-june\n")
    words = ("train", "lenet", "--dataset", "synthetic", "--epochs", "500", "--env-file", "training.env", "--detach")
    name = cli(*words, cluster=CLUSTER).stdout.strip()
    wait_for("epochs", lambda: "epoch 1/500" in cli("logs", name, cluster=CLUSTER).stdout)
    for node in (f"{CLUSTER}-head", f"{CLUSTER}-worker-0"):
        search = "grep -la TOKEN=moon-in-june /proc/[0-9]*/environ 2> /dev/null || true"
        with_it = docker("exec", "--user", "orchestrator", node, "sh", "-c", search)
        assert with_it, f"no rank on {node} has the variable"
        assert not any("moon-in-june" in line for line in docker("exec", node, "ps", "-e", "-o", "args="))
    cli("stop", name, cluster=CLUSTER)
    cli("results", name, cluster=CLUSTER)
    holding = [path for path in (cli.state / "orchestrator" / CLUSTER).rglob("*") if path.is_file()]
    assert [path for path in holding if b"moon-in-june" in path.read_bytes()] == []
    files = docker("exec", f"{CLUSTER}-head", "sh", "-c", f"grep -rl moon-in-june /shared/runs/{name} || true")
    assert files == []
