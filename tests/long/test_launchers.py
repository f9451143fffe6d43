"""Every launcher of scripts that needs no other image or package, on a local cluster."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e import launchers
from tests.e2e.command import Cli
from tests.e2e.launchers import SCRIPTS, Nodes

CLUSTER = "e2e-launchers"


@pytest.fixture(scope="module", autouse=True)
def deployed(cli: Cli) -> Iterator[None]:
    cli("deploy", "--nodes", "2", "--no-monitoring", cluster=CLUSTER)
    yield
    cli("teardown", "--discard-runs", cluster=CLUSTER)


@pytest.fixture(params=["horovod", "mpirun", "tensorflow", "plain"])
def nodes(cli: Cli, request: pytest.FixtureRequest) -> Nodes:
    return Nodes(cli, CLUSTER, request.param)


@pytest.mark.parametrize("holds", launchers.STORY)
def test_what_holds_for_every_launcher(nodes: Nodes, holds: Callable[[Nodes], None]) -> None:
    holds(nodes)


@pytest.mark.parametrize("launcher", ["mpirun", "plain"])
def test_a_script_of_horovod_runs_without_horovodrun(cli: Cli, launcher: str) -> None:
    said = Nodes(cli, CLUSTER, launcher).run(SCRIPTS / "own_script.py", arguments=("--factor", "2"))
    assert "rank 0 of 2 greets: 6" in said.stdout
    assert "[rank 1] rank 1 of 2 greets: 6" in said.stdout


def test_launcher_is_chosen_by_what_the_script_imports(cli: Cli) -> None:
    said = Nodes(cli, CLUSTER, "auto").run(SCRIPTS / "multi_worker.py")
    assert "launcher: tensorflow (the script imports tensorflow.distribute" in said.stderr
    assert "2 replicas: [1.0, 2.0, 3.0, 4.0]" in said.stdout


def test_parameter_servers_are_asked_for_and_train(cli: Cli) -> None:
    nodes = Nodes(cli, CLUSTER, "auto")
    assert "--parameter-servers 1" in nodes.run(SCRIPTS / "parameter_server.py", code=2).stderr
    said = nodes.run(SCRIPTS / "parameter_server.py", "--parameter-servers", "1")
    assert "trained by 2 workers: [1.0, 2.0, 3.0, 4.0]" in said.stdout
    assert nodes.left() == []
