"""Resumed runs equal uninterrupted ones; two ranks by horovodrun, in the image."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.bottleneck import explain
from orchestrator.schema import Checkpoint, Checkpoints, Epoch
from orchestrator.trainer.supervision.leftover_processes import STOP
from orchestrator.trainer.supervision.rank_record import read, read_all
from tests import samples, waiting
from tests.trainer import launcher

EPOCHS, STEPS = 4, 4  # 70 images, two ranks of 8: four steps each
# Fields of epochs without times, which always differ.
SAME = {"epoch", "steps", "learning_rate", "train", "test", "weights_sha256"}


def train(directory: Path, code: int = 0, ranks: int = 2, before: Path | None = None, **changes: Any) -> Path:
    """Train, from the newest checkpoint of the run in ``before`` if given, and require this exit code."""
    if before:
        changes |= {"resume": str(before / "checkpoints" / index(before).entries[-1].name)}
    values = {"run": directory.name, "epochs": EPOCHS, "batch_size": 8, "augment": True, "warmup_epochs": 1, **changes}
    output = launcher.train(directory, ranks, **values)
    assert (output.returncode == 0) == (code == 0), output.stdout
    return directory


def index(directory: Path) -> Checkpoints:
    path = directory / "checkpoints" / "index.json"
    return Checkpoints.model_validate_json(path.read_text()) if path.exists() else Checkpoints()


def epochs(directory: Path) -> list[dict[str, Any]]:
    return [epoch.model_dump(include=SAME) for epoch in launcher.results(directory).epochs]


def exit_codes(directory: Path) -> set[int | None]:
    return {record.exit_code for record in read_all(directory)}


def interrupted(
    directory: Path, when: Callable[[], object], number: int, by_wrapper: bool = False, **changes: Any
) -> None:
    """Run until ``when`` holds, then send ``number`` to rank 1 or to its wrapper."""
    run = threading.Thread(target=train, args=(directory, 1), kwargs=changes)
    run.start()
    assert waiting.until(when, 120)
    os.kill(wrapper(directory, 1) if by_wrapper else rank(directory, 1), number)
    run.join(timeout=60)
    assert not run.is_alive()


def wrapper(directory: Path, number: int) -> int:
    return read(directory / "ranks" / f"{number}.json").pid


def rank(directory: Path, number: int) -> int:
    """Return the id of the training process, a child of the wrapper."""
    parent = wrapper(directory, number)
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def straight(runs: Path) -> Path:
    """Return the run without interruption."""
    return train(runs / "straight")


@pytest.fixture(scope="module")
def killed(runs: Path) -> Path:
    """Return the same run, of which rank 1 was killed once its second epoch was recorded."""
    killed = runs / "killed"
    interrupted(killed, lambda: any(entry.epoch == 2 for entry in index(killed).entries), signal.SIGKILL)
    return killed


def test_killed_run_resumes_bit_for_bit(runs: Path, straight: Path, killed: Path) -> None:
    assert launcher.results(killed).ended is None
    resumed = train(runs / "resumed", before=killed, restarts=1)
    results = launcher.results(resumed)
    assert (results.ended, results.resumed_from, results.config.restarts) == ("epochs", "killed", 1)
    assert epochs(resumed) == epochs(straight)
    assert len(epochs(resumed)) == EPOCHS


def test_other_number_of_ranks_resumes_at_the_end_of_an_epoch(runs: Path, killed: Path) -> None:
    on_one_rank = train(runs / "alone", ranks=1, before=killed)
    all_epochs = launcher.results(on_one_rank).epochs
    epochs_before = index(killed).entries[-1].epoch
    assert [epoch.epoch for epoch in all_epochs] == [1, 2, 3, 4]
    assert [epoch.steps for epoch in all_epochs] == [
        *range(4, 4 * epochs_before + 1, 4),
        *range(8 * epochs_before + 8, 33, 8),
    ]
    before = launcher.results(on_one_rank)
    assert (before.epochs_before, before.steps_before) == (epochs_before, 8 * epochs_before)


def test_resume_makes_no_step_if_all_steps_are_done(runs: Path, killed: Path) -> None:
    enough = launcher.results(train(runs / "enough", ranks=1, before=killed, steps=10))
    assert (enough.ended, len(enough.epochs)) == ("steps", index(killed).entries[-1].epoch)


def test_run_stopped_twice_within_epochs_resumes_bit_for_bit(runs: Path) -> None:
    """In bfloat16, with momentum, and with the scores of the interrupted epoch."""
    low: dict[str, Any] = {"precision": "bfloat16"}
    straight = train(runs / "straight-16", **low)
    first = train(runs / "first-16", steps=6, **low)
    assert [entry.name for entry in index(first).entries] == ["epoch-0001", "epoch-0002-step-000006"]
    assert [epoch.train.images for epoch in launcher.results(first).epochs] == [64, 32]
    (runs / "second-16").mkdir()
    (runs / "second-16" / STOP).touch()
    second = train(runs / "second-16", code=75, before=first, **low)
    assert (launcher.results(second).ended, epochs(second)[:1]) == ("terminated", epochs(straight)[:1])
    assert 75 in exit_codes(second)
    assert index(second).entries[-1].step > 6
    third = train(runs / "third-16", before=second, **low)
    assert epochs(third) == epochs(straight)


def test_epoch_time_covers_both_runs(runs: Path) -> None:
    point = Checkpoint.model_validate_json(
        (runs / "first-16" / "checkpoints" / "epoch-0002-step-000006" / "checkpoint.json").read_text()
    )
    assert (point.trained, [epoch.epoch for epoch in point.epochs]) == (None, [1])
    before: Epoch = launcher.results(runs / "first-16").epochs[1]
    both = launcher.results(runs / "third-16").epochs[1]
    assert both.seconds > before.seconds


def test_sigterm_of_one_rank_writes_a_checkpoint(runs: Path) -> None:
    run = runs / "terminated"
    interrupted(run, lambda: index(run).entries, signal.SIGTERM, epochs=500, keep_checkpoints=2)
    results = launcher.results(run)
    assert results.ended == "terminated"
    assert 75 in exit_codes(run)
    entry = index(run).entries[-1]
    assert entry.epoch in (len(results.epochs), len(results.epochs) + 1)
    assert len(index(run).entries) <= 3  # two, and the best
    names = {path.name for path in (run / "checkpoints").iterdir()}
    assert names == {"index.json", *(entry.name for entry in index(run).entries)}
    assert "terminated after step " in (run / "log").read_text()


def test_sigterm_of_one_rank_writes_a_checkpoint_over_mpi(runs: Path) -> None:
    run = runs / "terminated-mpi"
    interrupted(run, lambda: index(run).entries, signal.SIGTERM, by_wrapper=True, controller="mpi", epochs=500)
    assert launcher.results(run).ended == "terminated"
    assert 75 in exit_codes(run)
    assert index(run).entries[-1].epoch >= len(launcher.results(run).epochs)


def test_sigterm_interrupts_an_evaluation(runs: Path) -> None:
    run, data = runs / "evaluating", samples.mnist(runs / "held-out", {"train": 70, "t10k": 20000})
    interrupted(run, lambda: index(run).entries, signal.SIGTERM, data=str(data))
    results = launcher.results(run)
    assert (results.ended, results.epochs, 75 in exit_codes(run)) == ("terminated", [], True)
    assert [(entry.name, entry.top1) for entry in index(run).entries] == [("epoch-0001", None)]


def test_bottleneck_is_reported_within_the_first_epoch(runs: Path) -> None:
    """Requests are checked once a second, so the epoch must be long enough; a stop after one step has no times."""
    run, data = runs / "at-once", samples.mnist(runs / "many", {"train": 8000, "t10k": 70})
    changes = {"code": 75, "data": str(data), "checkpoint_every": 0.1}
    training = threading.Thread(target=train, args=(run,), kwargs=changes)
    training.start()
    assert waiting.until(lambda: [entry for entry in index(run).entries if entry.step > 1], 120)
    (run / STOP).touch()
    training.join(timeout=60)
    results = launcher.results(run)
    assert (results.epochs, results.ended) == ([], "terminated")
    assert results.unfinished is not None
    assert results.unfinished.steps == index(run).entries[-1].step - 1
    assert f"[0]<stdout>:{explain(results)}" in (run / "log").read_text().splitlines()


def test_max_time_leaves_a_checkpoint(runs: Path) -> None:
    run = train(runs / "short", epochs=500, max_time=1.0)
    assert launcher.results(run).ended == "max-time"
    assert [entry.name for entry in index(run).entries] == ["epoch-0001-step-000001"]
