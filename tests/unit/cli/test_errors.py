"""Every bad input through the command itself: exit code, one message on standard error, nothing on standard output."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.runs import store
from tests import builders, samples
from tests.unit.conftest import Cli, StandIn

TRAIN = ("train", "resnet20", "--dataset", "mnist")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["deploy", "--nodes", "0"], "nodes: 0: must be greater than or equal to 1"),
        (["deploy", "--nodes", "10000"], "nodes: 10000: must be less than or equal to 100"),
        (["deploy", "--cluster", "My_Cluster"], "name: 'My_Cluster' is not usable: 1 to 30 of a-z"),
        (["status", "--cluster", "../up"], "name: '../up' is not usable"),
        (["train", "resnet5", "--dataset", "mnist"], "'resnet5' is unknown, did you mean resnet50?"),
        (["train", "resnet20", "--dataset", "cifar"], "'cifar' is unknown, did you mean cifar10?"),
        (["train", "resnet20", "--max-time", "soon"], "train.max_time: 'soon': must be a valid number"),
        ([*TRAIN, "--cycle-time", "1e9"], "launch.cycle_time: 1000000000.0: must be less than or equal to 1000"),
        (["train"], "train.model: missing; one of alexnet, "),
        (["run", "--", "python", "missing.py"], "run: missing.py: no such file"),
        (["deploy", "--config", "missing.yaml"], "missing.yaml: No such file or directory"),
    ],
)
def test_unusable_input_ends_with_2(cli: Cli, arguments: list[str], problem: str) -> None:
    finished = cli(*arguments)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert problem in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["deploy", "--nodes", "many"], "--nodes"),
        (["deploy", "--colour", "blue"], "--colour"),
        (["destroy"], "destroy"),
        (["run"], "Missing"),
    ],
)
def test_unknown_command_ends_with_2_and_is_no_bug(cli: Cli, arguments: list[str], problem: str) -> None:
    finished = cli(*arguments)
    assert problem in finished.stderr
    assert "a bug" not in finished.stderr
    assert finished.returncode == 2


@pytest.mark.parametrize("option", ["--cluster", "--cluster=group1", "-c", "--json"])
def test_option_before_the_command_is_answered_with_its_place(cli: Cli, option: str) -> None:
    finished = cli(option, "group1", "status")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert f"{option.partition('=')[0]} belongs after the command" in finished.stderr


@pytest.mark.parametrize("command", ["status", "teardown", "notebook"])
def test_name_of_a_cluster_without_its_option_is_answered_with_it(cli: Cli, command: str) -> None:
    finished = cli(command, "group1")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "(group1); --cluster" in finished.stderr


def test_word_too_many_for_a_command_without_clusters_names_no_option(cli: Cli) -> None:
    finished = cli("models", "lenet")
    assert finished.returncode == 2
    assert "--cluster" not in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [(TRAIN, 2, "--dataset: not with --resume"), (("train",), 1, "no run ''")],
)
def test_empty_name_of_a_run_to_resume_is_refused(
    cli: Cli, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    store.save(builders.deployed(), builders.run())
    finished = cli(*arguments, "--resume", "")
    assert (finished.returncode, finished.stdout) == (code, "")
    assert problem in finished.stderr


def test_unknown_key_is_refused_with_place_and_nearest_key(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("nodse: 3\nlocal: {cpu: 1}\n")
    finished = cli("deploy")
    assert finished.returncode == 2
    assert "cluster.yaml: nodse: unknown key, did you mean nodes?" in finished.stderr
    assert "cluster.yaml: local.cpu: unknown key, did you mean local.cpus?" in finished.stderr


@pytest.mark.parametrize(
    "arguments", [["status"], ["hostfile"], ["inventory"], ["stop"], ["ssh"], ["check"], TRAIN, ["run", "sh", "-m"]]
)
def test_command_on_an_undeployed_cluster_ends_with_1(cli: Cli, arguments: list[str]) -> None:
    finished = cli(*arguments)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert "error: cluster 'default' is not deployed\n`orchestrator deploy` makes one" in finished.stderr


def test_teardown_of_an_undeployed_cluster_succeeds(cli: Cli) -> None:
    finished = cli("teardown")
    assert (finished.returncode, finished.stdout) == (0, "cluster default: 0 made, 0 gone, 0 left\n")


@pytest.mark.parametrize(
    ("command", "code"), [("teardown", 0), ("runs", 0), ("logs", 1), ("results", 1), ("status", 1), ("stop", 1)]
)
def test_mistyped_cluster_is_answered_with_the_deployed_ones(cli: Cli, command: str, code: int) -> None:
    builders.deployed("group1")
    finished = cli(command, "--cluster", "gruop1")
    assert finished.returncode == code
    assert "deployed: group1; choose with --cluster" in finished.stderr


def test_cluster_of_an_engine_that_does_not_answer_is_forgotten_with_consent(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    builders.deployed("demo")
    monkeypatch.setenv("DOCKER_HOST", "unix:///no-such-socket")
    refused = cli("teardown", "--cluster", "demo")
    assert (refused.returncode, "`orchestrator teardown --forget --cluster demo`" in refused.stderr) == (2, True)
    unanswered = cli("teardown", "--forget", "--cluster", "demo")
    assert (unanswered.returncode, "nothing was changed" in unanswered.stderr) == (1, True)
    assert state.cluster_names() == ["demo"]
    forgotten = cli("teardown", "--forget", "--yes", "--cluster", "demo")
    assert (forgotten.returncode, forgotten.stdout) == (0, "")
    assert state.cluster_names() == []


def test_teardown_that_removes_nothing_says_which_cluster_is_not_deployed(cli: Cli, own_directories: Path) -> None:
    finished = cli("teardown", "--cluster", "demo")
    assert f"cluster 'demo' is not deployed from this state directory: {own_directories}" in finished.stderr


@pytest.mark.parametrize(
    ("data", "problem"),
    [("missing", "no such directory"), (".", "empty"), (str(samples.MNIST.parent), "no MNIST here")],
)
def test_missing_data_ends_with_2_before_contacting_a_node(cli: Cli, data: str, problem: str) -> None:
    builders.deployed()
    finished = cli(*TRAIN, "--data", data)
    assert finished.returncode == 2
    assert f"train.data: {data}: {problem}" in finished.stderr


def test_more_ranks_than_slots_end_with_2_before_any_contact(cli: Cli) -> None:
    builders.deployed(nodes=2)
    finished = cli("train", "resnet20", "--dataset", "synthetic", "--np", "3")
    assert finished.returncode == 2
    assert "launch.np: 3 ranks asked for, the cluster has 1 to 2 slots" in finished.stderr


def test_unknown_node_is_refused_with_the_nearest_name(cli: Cli) -> None:
    builders.deployed()
    finished = cli("ssh", "demo-worker-7")
    assert finished.returncode == 2
    assert "no node 'demo-worker-7', did you mean demo-worker-0?" in finished.stderr


def test_state_of_a_newer_version_ends_with_1_and_remedy(cli: Cli) -> None:
    state_dir = builders.deployed()
    state.replace(state_dir.record, json.dumps({**json.loads(state_dir.record.read_text()), "version": 99}))
    finished = cli("status")
    assert finished.returncode == 1
    assert "was written by a newer orchestrator (format 99, this one knows 1)\nupgrade orchestrator" in finished.stderr


def test_deploy_without_terraform_ends_with_2(tmp_path: Path) -> None:
    """Run a Python without Terraform next to it, on an empty PATH."""
    (tmp_path / "python").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [str(tmp_path / "python"), "-c", "from orchestrator.cli import main; main()", "deploy"]
    finished = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert "error: neither terraform nor tofu is on the PATH\n    install one: https://" in finished.stderr


def test_deploy_without_docker_ends_with_2_and_changes_nothing(
    cli: Cli, stand_in: StandIn, tmp_path: Path, own_directories: Path
) -> None:
    stand_in("terraform", """echo '{"terraform_version": "1.11.4"}'""")
    with socket.socket(socket.AF_UNIX) as server:  # leaves the file of a socket on which no process listens
        server.bind(str(tmp_path / "dead"))
    finished = cli("deploy", DOCKER_HOST=f"unix://{tmp_path / 'dead'}")
    assert finished.returncode == 2
    assert f"error: Docker Engine does not answer at unix://{tmp_path / 'dead'}\n" in finished.stderr
    assert "start Docker" in finished.stderr
    assert not own_directories.exists()


def test_init_writes_a_valid_file_and_does_not_overwrite_it(cli: Cli, tmp_path: Path) -> None:
    assert cli("init").returncode == 0
    (tmp_path / "cluster.yaml").write_text("name: mine\n")
    finished = cli("init")
    assert finished.returncode == 2
    assert "cluster.yaml exists already\n--force replaces it" in finished.stderr
    assert (tmp_path / "cluster.yaml").read_text() == "name: mine\n"
    assert cli("init", "--force").returncode == 0
    assert (tmp_path / "cluster.yaml").read_text() != "name: mine\n"


def test_init_writes_a_file_with_private_mode(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").touch(mode=0o644)
    assert cli("init", "--force").returncode == cli("init", "mine.yaml").returncode == 0
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("cluster.yaml", "mine.yaml")] == [0o600, 0o600]
