"""Durations and speeds of launches, from the files of their runs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.schema import RunStatus
from orchestrator.studies.journal import Started
from orchestrator.studies.measure_launch import measured, seconds_of
from tests.unit.studies.sample_study import Sample
from tests.unit.studies.studies import cells, study


def started(at: float) -> Started:
    cell = cells(study())[0]
    return Started(cell=cell, round=0, again=False, run="a", started=at, busy=0.0, command=[])


@pytest.mark.parametrize("hours", [-5, 0, 5])
def test_clock_of_this_machine_does_not_change_the_time_of_an_ended_launch(hours: int) -> None:
    status = RunStatus(state="finished", exit_code=0, started=1e6, ended=1e6 + 75.0)
    assert seconds_of(started(1e6 + 3600.0 * hours), status) == 75.0


def test_launch_that_ends_now_counts_from_its_preparation() -> None:
    assert 60.0 <= seconds_of(started(time.time() - 60.0), None) < 65.0


def with_results(directory: Path, of_epochs: dict[str, Any], of_run: dict[str, Any]) -> Path:
    """Write results of a run with these keys in every epoch, and in the whole file."""
    results = json.loads(Sample(models=["resnet20"], ranks=[1], rounds=1).results[0].model_dump_json())
    epochs = [{**epoch, **of_epochs} for epoch in results["epochs"]]
    (directory / "results.json").write_text(json.dumps({**results, "epochs": epochs, **of_run}))
    return directory


def unfinished(*seconds: float) -> dict[str, Any]:
    parts = {key: list(seconds) for key in ("input_seconds", "compute_seconds", "communication_seconds")}
    return {"epochs": [], "unfinished": {"steps": len(seconds), **parts}}


@pytest.mark.parametrize(
    ("of_epochs", "of_run"),
    [
        ({"median_step_seconds": 1e-320}, {}),
        ({"median_step_seconds": 1e8}, {}),
        ({"images_per_second": -5.0}, {}),
        ({}, unfinished(0.0)),
        ({}, unfinished()),
    ],
)
def test_launch_with_an_impossible_step_has_a_problem(
    tmp_path: Path, of_epochs: dict[str, Any], of_run: dict[str, Any]
) -> None:
    launch = measured(started(1e6), with_results(tmp_path, of_epochs, of_run), 5.0)
    assert (launch.step_seconds, launch.images_per_second) == (None, None)
    assert launch.problem == "run a left no results.json with more than one step"


@pytest.mark.parametrize("step", ["fast", -1.0, 1e300])
def test_problem_of_a_launch_names_what_is_wrong_in_its_results(tmp_path: Path, step: object) -> None:
    launch = measured(started(1e6), with_results(tmp_path, {"median_step_seconds": step}, {}), 5.0)
    assert launch.problem is not None
    assert launch.problem.startswith("run a: results.json: epochs.0.median_step_seconds: ")


def test_launch_within_its_first_epoch_is_measured(tmp_path: Path) -> None:
    launch = measured(started(1e6), with_results(tmp_path, {}, unfinished(0.5)), 5.0)
    assert (launch.step_seconds, launch.problem) == (1.5, None)
