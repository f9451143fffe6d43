"""Commands that need the state directory alone: results on standard output, for people and for machines."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.schema import Epoch, Results, RunStatus, Scores, World
from orchestrator.state import Home
from tests import builders, samples
from tests.unit.conftest import Cli

LOG = b"[0]<stdout>:epoch 1/1\n[1]<stdout>:hello\n"


def results(run_id: str) -> Results:
    scores = Scores(loss=0.25, top1=0.9, top5=1.0, images=1000)
    epoch = Epoch(
        epoch=1,
        steps=4,
        learning_rate=0.1,
        train=scores,
        test=scores,
        images_per_second=400.0,
        images_per_second_per_rank=[200.0, 200.0],
        peak_memory_per_rank=[1, 1],
        seconds=3.0,
        test_seconds=1.0,
        weights_sha256="00",
    )
    return Results(
        run=run_id,
        config=samples.train_config(run=run_id),
        versions={},
        world=World(size=2, hosts=["demo-head", "demo-worker-0"]),
        parameters=1,
        effective_batch_size=64,
        peak_learning_rate=0.2,
        epochs=[epoch],
        ended="epochs",
    )


@pytest.fixture
def place() -> Home:
    """A cluster with one run that has ended and was collected."""
    place = builders.deployed()
    run = builders.run()
    state.replace(place.runs / run.id / "run.json", run.model_dump_json())
    RunStatus(state="finished", exit_code=0, started=1.0, ended=9.0).write(place.runs / run.id / "status.json")
    results(run.id).write(place.runs / run.id / "results.json")
    (place.runs / run.id / "log").write_bytes(LOG)
    return place


def as_json(cli: Cli, *arguments: str) -> Any:
    finished = cli(*arguments, "--json")
    assert (finished.returncode, finished.stderr) == (0, "")
    return json.loads(finished.stdout)


@pytest.mark.usefixtures("place")
def test_the_hostfile_is_printed_as_it_is(cli: Cli) -> None:
    assert cli("hostfile").stdout == "10.0.0.10 slots=1\n10.0.0.11 slots=1\n"


def test_the_inventory_is_printed_as_json(cli: Cli, place: Home) -> None:
    made = json.loads(cli("inventory").stdout)["all"]
    assert list(made["hosts"]) == ["demo-head", "demo-worker-0"]
    assert made["vars"]["ansible_ssh_private_key_file"] == str(place.key)


@pytest.mark.usefixtures("place")
def test_a_runs_results_are_shown_in_words_and_in_json(cli: Cli) -> None:
    said = cli("results").stdout.splitlines()
    assert said[0] == "run resnet20-mnist-1: resnet20 on mnist, 2 ranks on 2 nodes"
    assert said[-1].split() == ["1", "0.2500", "90.00%", "0.2500", "90.00%", "100.00%", "400", "3.0"]
    assert Results.model_validate(as_json(cli, "results")) == results("resnet20-mnist-1")


@pytest.mark.usefixtures("place")
def test_a_runs_log_is_shown_as_a_person_reads_it(cli: Cli) -> None:
    assert cli("logs").stdout == "epoch 1/1\n[rank 1] hello\n"


def test_runs_are_listed_also_after_the_cluster_is_gone(cli: Cli, place: Home) -> None:
    state.forget(place)
    assert "resnet20-mnist-1" in cli("runs").stdout
    assert [(run["id"], run["state"]) for run in as_json(cli, "runs")] == [("resnet20-mnist-1", "finished")]
    assert cli("results", "resnet20-mnist-1").returncode == 0


@pytest.mark.usefixtures("place")
def test_a_run_that_does_not_exist_is_refused_with_the_nearest(cli: Cli) -> None:
    finished = cli("logs", "resnet20-mnist")
    assert finished.returncode == 1
    assert "no run 'resnet20-mnist', did you mean resnet20-mnist-1?" in finished.stderr


def test_a_run_without_training_results_says_how_it_ended_and_where_its_files_are(cli: Cli, place: Home) -> None:
    (place.runs / "resnet20-mnist-1" / "results.json").unlink()
    said = cli("results").stdout.splitlines()
    assert said[0] == "run resnet20-mnist-1 finished: python train.py on 2 ranks"
    assert said[1] == f"log and files: {place.runs / 'resnet20-mnist-1'}"
    assert as_json(cli, "results")["status"]["exit_code"] == 0


def test_a_run_of_which_nothing_was_fetched_says_so(cli: Cli, place: Home) -> None:
    for name in ("log", "status.json", "results.json"):
        (place.runs / "resnet20-mnist-1" / name).unlink()
    place.record.unlink()
    finished = cli("results")
    assert finished.returncode == 1
    assert "run resnet20-mnist-1 left nothing that could be fetched" in finished.stderr


def test_a_run_on_a_head_that_does_not_answer_is_listed_as_unknown(cli: Cli, place: Home) -> None:
    (place.runs / "resnet20-mnist-1" / "status.json").unlink()
    assert [run["state"] for run in as_json(cli, "runs")] == ["unknown"]


def test_a_cluster_that_never_had_runs_lists_none(cli: Cli) -> None:
    assert cli("runs").stdout == "cluster default: no runs yet\n"
    assert as_json(cli, "runs") == []


def test_a_teardown_needs_no_cluster_yaml_that_can_be_read(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("name: mine\nnodes: many\n")
    finished = cli("teardown")
    assert (finished.returncode, "0 made, 0 gone, 0 left" in finished.stdout) == (0, True)
