"""Configuration and command of a cell's launches."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Config, Train
from orchestrator.runs import store
from orchestrator.schema import RunStatus
from orchestrator.studies import settings, time_and_cost
from tests import builders, samples
from tests.unit.studies.studies import cells, study

EVALUATED = [
    ({}, None),
    ({"options": {"test_samples": 32}}, 32),
    ({"shrink": {"test_samples": 64}}, None),
    ({"shrink": {"test_samples": 64}, "shrunk": True}, 64),
    ({"options": {"test_samples": 32}, "shrunk": True}, 32),
]


@pytest.mark.parametrize(("changes", "evaluated"), EVALUATED)
def test_launches_evaluate_the_test_samples_of_the_study(changes: dict[str, Any], evaluated: int | None) -> None:
    measured = study(ranks=[1], **changes).measured()
    config = settings.of_cell(Config(), measured, cells(measured)[0])
    assert config.train.test_samples == evaluated
    words = settings.command(config)
    assert ("--test-samples" in words) == (evaluated is not None)
    if evaluated:
        assert words[words.index("--test-samples") + 1] == str(evaluated)


@pytest.mark.parametrize(
    ("time", "word"), [("720h", "2592000s"), (1234567.25, "1234567.25s"), ("90s", "90s"), (1e-5, "0.00001s")]
)
def test_command_of_a_launch_has_its_exact_time_limit(time: object, word: str) -> None:
    limited = study(ranks=[1], until={"time": time})
    words = settings.command(settings.of_cell(Config(), limited, cells(limited)[0]))
    assert words[words.index("--max-time") + 1] == word
    assert Train(max_time=word).max_time == limited.until.time


@pytest.mark.parametrize(
    ("ran", "seconds"),
    [
        ({"test_samples": 64}, 40.0),
        ({}, None),
        ({"test_samples": 9}, None),
        ({"test_samples": 64, "batch_size": 4096}, None),
        ({"test_samples": 64, "engine": "torch-ddp"}, None),
    ],
)
def test_duration_of_a_run_counts_only_with_equal_settings(
    tmp_path: Path, ran: dict[str, Any], seconds: float | None
) -> None:
    state_dir, run = builders.deployed(), builders.run(id="lenet-mnist-1", kind="lenet-mnist", np=1, started=1e6)
    store.save(state_dir, run)
    # This machine's clock, by which the run was recorded, is two hours ahead of the head's.
    RunStatus(state="finished", exit_code=0, started=run.started - 7200, ended=run.started - 7160).write(
        state_dir.runs / run.id / "status.json"
    )
    config = samples.train_config(**{"run": run.id, "model": "lenet", "steps": 20, "batch_size": 32, **ran})
    config.write(state_dir.runs / run.id / "config.json")
    small = study(ranks=[1], batch=32, until={"steps": 20}, shrink={"test_samples": 64}, shrunk=True).measured()
    plan = time_and_cost.plan(Config(), small, cells(small), tmp_path / "none-study")
    each = None if plan.seconds is None else plan.seconds / plan.launches
    assert each == seconds
