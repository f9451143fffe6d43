"""Commands that need only the state directory: results on standard output, as text and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.runs import store
from orchestrator.schema import SAVED_MODEL, Checkpoints, Results, RunStatus
from orchestrator.state import StateDir
from tests import builders
from tests.unit.conftest import Cli

LOG = b"[0]<stdout>:epoch 1/1\n[1]<stdout>:hello\n"
SPLIT = {"input_seconds": [0.2, 0.2], "compute_seconds": [0.3, 0.3], "communication_seconds": [0.0, 0.0]}
RESULTS = builders.results([builders.epoch(1)])


@pytest.fixture
def state_dir() -> StateDir:
    """Write the state of a cluster with one finished and collected run."""
    state_dir = builders.deployed()
    run = builders.run()
    state.replace(state_dir.runs / run.id / "run.json", run.model_dump_json())
    RunStatus(state="finished", exit_code=0, started=1.0, ended=9.0).write(state_dir.runs / run.id / "status.json")
    RESULTS.write(state_dir.runs / run.id / "results.json")
    (state_dir.runs / run.id / "log").write_bytes(LOG)
    return state_dir


def as_json(cli: Cli, *arguments: str) -> Any:
    finished = cli(*arguments, "--json")
    assert (finished.returncode, finished.stderr) == (0, "")
    return json.loads(finished.stdout)


@pytest.mark.usefixtures("state_dir")
def test_hostfile_is_printed_unchanged(cli: Cli) -> None:
    assert cli("hostfile").stdout == "10.0.0.10 slots=1\n10.0.0.11 slots=1\n"


def test_inventory_is_printed_as_json(cli: Cli, state_dir: StateDir) -> None:
    inventory = json.loads(cli("inventory").stdout)["all"]
    assert list(inventory["hosts"]) == ["demo-head", "demo-worker-0"]
    assert inventory["vars"]["ansible_ssh_private_key_file"] == str(state_dir.key)


def test_inventory_without_host_keys_names_the_remedy(cli: Cli, state_dir: StateDir) -> None:
    """As after a deploy that ended before every node answered on ssh."""
    record = builders.read_record(state_dir)
    state.write(state_dir, record.model_copy(update={"host_keys": {"id-0": "ssh-ed25519 AAAA"}}))
    finished = cli("inventory")
    assert finished.returncode == 1
    assert "the host keys of demo-worker-0 are not known yet" in finished.stderr
    assert "`orchestrator deploy` finishes the cluster" in finished.stderr


@pytest.mark.usefixtures("state_dir")
def test_results_of_a_run_are_shown_as_text_and_json(cli: Cli) -> None:
    lines = cli("results").stdout.splitlines()
    assert lines[0] == "run resnet20-mnist-1: resnet20 on mnist, 2 ranks on 2 nodes"
    assert lines[-1].split() == ["1", "0.2500", "90.00%", "0.2500", "90.00%", "100.00%", "400", "3.0"]
    assert Results.model_validate(as_json(cli, "results")) == RESULTS


@pytest.mark.parametrize("end", ["failed", "stopped"])
def test_results_of_a_run_that_did_not_finish_name_its_state(cli: Cli, state_dir: StateDir, end: Any) -> None:
    RunStatus(state=end, exit_code=1, started=1.0, ended=9.0).write(state_dir.runs / "resnet20-mnist-1" / "status.json")
    first = cli("results").stdout.splitlines()[0]
    assert first == f"run resnet20-mnist-1 {end}: resnet20 on mnist, 2 ranks on 2 nodes"
    assert as_json(cli, "results")["state"] == end


def test_results_show_when_an_accuracy_was_reached(cli: Cli, state_dir: StateDir) -> None:
    reached = builders.results([builders.epoch(1), builders.epoch(2)], until="top1=0.9")
    reached.write(state_dir.runs / "resnet20-mnist-1" / "results.json")
    assert "top-1 90.00%: reached after 4.0 s, in epoch 1\n" in cli("results").stdout
    assert "top-1 95.00%: not reached, the best was 90.00%\n" in cli("results", "--until", "top1=0.95").stdout
    assert as_json(cli, "results")["time_to_accuracy"] == 4.0
    assert as_json(cli, "results", "--until", "top1=.95")["time_to_accuracy"] is None
    refused = cli("results", "--until", "75")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--until: '75': must be top1= and a share" in refused.stderr


def test_results_end_with_the_bottleneck(cli: Cli, state_dir: StateDir) -> None:
    builders.results([builders.epoch(1, **SPLIT)]).write(state_dir.runs / "resnet20-mnist-1" / "results.json")
    [sentence] = [line for line in cli("results").stdout.splitlines() if "-bound" in line]
    assert cli("results").stdout.endswith(f"{sentence}\n")
    explanation = as_json(cli, "results")["explanation"]
    assert (explanation["bound"], round(explanation["share"], 2)) == ("input", 0.4)
    assert sentence == f"{explanation['finding']}. To try: {'; '.join(explanation['advice'])}"


@pytest.mark.usefixtures("state_dir")
def test_results_without_a_split_have_no_explanation(cli: Cli) -> None:
    assert as_json(cli, "results")["explanation"] is None


def test_results_of_a_run_that_ran_out_of_time_name_the_command_that_resumes_it(cli: Cli) -> None:
    state_dir = builders.deployed("lab")
    run = builders.run()
    directory = state_dir.runs / run.id
    store.save(state_dir, run)
    RunStatus(state="finished", exit_code=0, started=1.0, ended=9.0).write(directory / "status.json")
    RESULTS.model_copy(update={"ended": "max-time"}).write(directory / "results.json")
    (directory / "log").write_bytes(LOG)
    assert "--resume" not in cli("results", "--cluster", "lab").stderr
    (directory / "checkpoints").mkdir()
    Checkpoints().write(directory / "checkpoints" / "index.json")
    finished = cli("results", "--cluster", "lab")
    assert f"`orchestrator train --resume {run.id} --cluster lab` continues" in finished.stderr


@pytest.mark.usefixtures("state_dir")
def test_plot_draws_epochs_and_results_are_still_shown(cli: Cli, tmp_path: Path) -> None:
    drawn = cli("results", "--plot", "run.png")
    assert (drawn.returncode, drawn.stdout) == (0, cli("results").stdout)
    assert "wrote run.png" in drawn.stderr
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_picture_format_is_refused_first(cli: Cli) -> None:
    finished = cli("results", "--plot", "run.txt")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "error: --plot: run.txt: a picture ends with .png, .svg, .pdf, .html" in finished.stderr


def test_results_of_a_script_cannot_be_drawn(cli: Cli, state_dir: StateDir, tmp_path: Path) -> None:
    (state_dir.runs / "resnet20-mnist-1" / "results.json").unlink()
    finished = cli("results", "--plot", "run.png")
    assert finished.returncode == 1
    assert "run resnet20-mnist-1 left no results.json to draw" in finished.stderr
    assert not (tmp_path / "run.png").exists()


@pytest.mark.usefixtures("state_dir")
def test_log_of_a_run_is_shown_for_people(cli: Cli) -> None:
    assert cli("logs").stdout == "epoch 1/1\n[rank 1] hello\n"


def test_runs_are_listed_after_the_teardown(cli: Cli, state_dir: StateDir) -> None:
    state.forget(state_dir)
    assert "resnet20-mnist-1" in cli("runs").stdout
    assert [(run["id"], run["state"]) for run in as_json(cli, "runs")] == [("resnet20-mnist-1", "finished")]
    assert cli("results", "resnet20-mnist-1").returncode == 0


@pytest.mark.usefixtures("state_dir")
def test_unknown_run_is_refused_with_the_nearest_name(cli: Cli) -> None:
    finished = cli("logs", "resnet20-mnist")
    assert finished.returncode == 1
    assert "no run 'resnet20-mnist', did you mean resnet20-mnist-1?" in finished.stderr


def test_run_without_training_results_shows_end_and_files(cli: Cli, state_dir: StateDir) -> None:
    (state_dir.runs / "resnet20-mnist-1" / "results.json").unlink()
    lines = cli("results").stdout.splitlines()
    assert lines[0] == "run resnet20-mnist-1 finished: python train.py on 2 ranks"
    assert lines[1] == f"log and files: {state_dir.runs / 'resnet20-mnist-1'}"
    assert as_json(cli, "results")["status"]["exit_code"] == 0


def test_results_end_with_the_directory_of_the_trained_network(cli: Cli, state_dir: StateDir) -> None:
    network = state_dir.runs / "resnet20-mnist-1" / SAVED_MODEL
    assert "trained network" not in cli("results").stdout
    network.mkdir(parents=True)
    assert cli("results").stdout.splitlines()[-1] == f"trained network: {network}"
    assert as_json(cli, "results")["saved_model"] == str(network)


def test_run_without_fetched_files_says_so(cli: Cli, state_dir: StateDir) -> None:
    for name in ("log", "status.json", "results.json"):
        (state_dir.runs / "resnet20-mnist-1" / name).unlink()
    state_dir.record.unlink()
    finished = cli("results")
    assert finished.returncode == 1
    assert "run resnet20-mnist-1 left no files that could be fetched" in finished.stderr


def test_run_on_an_unreachable_head_is_listed_as_unknown(cli: Cli, state_dir: StateDir) -> None:
    (state_dir.runs / "resnet20-mnist-1" / "status.json").unlink()
    assert [run["state"] for run in as_json(cli, "runs")] == ["unknown"]


def test_cluster_without_runs_lists_none(cli: Cli) -> None:
    assert cli("runs").stdout == "cluster default: no runs yet\n"
    assert as_json(cli, "runs") == []


def test_teardown_needs_no_readable_cluster_yaml(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("name: mine\nnodes: many\n")
    finished = cli("teardown")
    assert (finished.returncode, "0 made, 0 gone, 0 left" in finished.stdout) == (0, True)
