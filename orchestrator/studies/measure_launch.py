"""Measurement of a launch, read from the files of its run."""

import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from orchestrator.runs import store
from orchestrator.schema import Results, RunStatus, StepTimes, Turn, bounded_files
from orchestrator.schema.bounded_files import Unreadable
from orchestrator.schema.studies import LONGEST, Launch
from orchestrator.studies.journal import Started

RESULTS = "results.json"
SHORTEST = 1e-9  # seconds of a step: a file of a node may have any number, and speeds must be finite


def of_turn(started: Started, directory: Path) -> Started:
    """Return the launch as the queue started it, if one did: its turn is among the files of its run."""
    with suppress(FileNotFoundError, Unreadable):
        turn = bounded_files.read_model(directory / store.TURN, Turn)
        return started.model_copy(update={"started": turn.started, "busy": turn.busy})
    return started


def seconds_of(started: Started, status: RunStatus | None) -> float:
    """Return the wall time of a launch that ends now.

    If it ended before (``status``), the head's clock alone measures it, since this machine's may be another.
    """
    seconds = status.ended - status.started if status else time.time() - started.started
    return min(max(0.0, seconds), LONGEST)


def measured(started: Started, directory: Path, seconds: float) -> Launch:
    """Return the launch with the measurement in the directory of its run's files.

    Args:
        started: The launch.
        directory: Directory with results.json.
        seconds: Wall time of the launch.

    Returns:
        The launch; with a problem if the run left no measurement.
    """
    step, problem = None, f"run {started.run} left no {RESULTS} with more than one step"
    try:
        results = bounded_files.read_model(directory / RESULTS, Results)
        step = step_seconds(results)
    except FileNotFoundError:
        pass
    except Unreadable as error:
        problem = f"run {started.run}: {RESULTS}: {error.reason}"
    if step is None:
        return started.launch(seconds=seconds, problem=problem)
    return started.launch(seconds=seconds, step_seconds=step, images_per_second=results.effective_batch_size / step)


def step_seconds(results: Results) -> float | None:
    """Return the median seconds of a run's steps after the first; None if it had no such step, or an impossible one."""
    step = _step_seconds(results)
    return step if step is not None and SHORTEST <= step <= LONGEST else None


def _step_seconds(results: Results) -> float | None:
    medians = [epoch.median_step_seconds for epoch in results.epochs if epoch.median_step_seconds]
    if medians:
        return median(medians)
    rates = [epoch.images_per_second for epoch in results.epochs if epoch.images_per_second]
    if rates:
        return results.effective_batch_size / median(rates)
    rest = results.unfinished
    return sum(sum(getattr(rest, f"{name}_seconds")[:1]) for name in StepTimes._fields) if rest else None
