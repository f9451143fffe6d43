"""Print runs and what they left: results of training, and the files of a script."""

import shlex
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator import progress, state
from orchestrator.bottleneck import explain
from orchestrator.cli import output
from orchestrator.runs import collected_files, predict_runs
from orchestrator.runs.control import RunState
from orchestrator.runs.requirements import Requirements
from orchestrator.runs.script import Source
from orchestrator.schema import SAVED_MODEL, Results, accuracy, time_to_accuracy
from orchestrator.state import StateDir


def runs_table(run_states: Iterable[RunState]) -> None:
    rows = [
        (s.run.id, s.state, s.run.np, f"{datetime.fromtimestamp(s.run.started):%Y-%m-%d %H:%M:%S}") for s in run_states
    ]
    output.table(("run", "state", "ranks", "started"), rows)


def as_record(run_state: RunState) -> dict[str, Any]:
    """Return a run and its state as one JSON object."""
    return {**run_state.run.model_dump(), "state": run_state.state, "status": run_state.status}


def run(run_state: RunState, directory: Path, json: bool, top1: float | None = None) -> None:
    """Print the results of a run.

    Args:
        run_state: The run and its state.
        directory: Directory of the run's fetched files.
        json: Print JSON.
        top1: Accuracy (0 to 1) whose time is asked for; by default the one that the run was to reach.
    """
    if results := trained(directory):
        top1 = results.config.until_top1 if top1 is None else top1
        compared = predict_runs.of_directory("", directory)
        saved = network if (network := directory / SAVED_MODEL).is_dir() else None
        derived = {"explanation": explain(results), "time_to_accuracy": top1 and time_to_accuracy(results, top1)}
        if json:
            here = {"state": run_state.state, "prediction": compared, "saved_model": saved}
            return output.as_json(results.model_dump() | derived | here)
        _training(results, run_state, top1)
        if compared:
            output.line(str(compared))
        if saved:
            output.line(f"trained network: {saved}")
        if results.ended in ("max-time", "terminated"):
            progress.note(collected_files.how_to_resume(StateDir(directory.parents[1]), run_state.run))
        return None
    if json:
        return output.as_json(as_record(run_state))
    output.line(
        f"run {run_state.run.id} {run_state.state}: {shlex.join(run_state.run.command)} on {run_state.run.np} ranks"
    )
    output.line(f"log and files: {directory}")


def source(code: Source, json: bool, requirements: Requirements | None = None) -> None:
    """Print the files that are sent with a script, directories created empty, files left out, and packages."""
    packages = {"source": requirements.source, "asked": requirements.requested} if requirements else None
    sizes = {name: path.stat().st_size for name, path in code.files.items()}
    if json:
        files = [{"name": name, "bytes": size} for name, size in sizes.items()]
        sent = {"directory": code.directory, "files": files, "bytes": code.size, "left_out": code.left_out}
        return output.as_json({**sent, "empty_directories": list(code.directories), "packages": packages})
    output.table(("bytes", "file"), [(f"{size:,}", name) for name, size in sizes.items()])
    for name in code.directories:
        output.line(f"created empty: {name}/")
    for name, reason in code.left_out.items():
        output.line(f"not sent: {name}: {reason}")
    output.line(str(code))
    if requirements:
        output.line("\n".join(f"to install, by {requirements.source}: {line}" for line in requirements.requested))


def trained(directory: Path) -> Results | None:
    """Read the results of a training run from the ``directory`` of its fetched files; None if it has none."""
    with suppress(FileNotFoundError):
        return state.load(directory / "results.json", Results, f"the output of the run is in {directory / 'log'}")
    return None


def _training(results: Results, run_state: RunState, top1: float | None) -> None:
    """Print a training run's state, configuration and epochs, when it reached ``top1``, and its bottleneck."""
    config, nodes = results.config, len(set(results.world.hosts))
    images = results.effective_batch_size // results.world.size
    after = f", after {results.resumed_from}" if results.resumed_from else ""
    ended = "" if run_state.state == "finished" else f" {run_state.state}"
    ranks = output.ranks_on_nodes(results.world.size, nodes)
    output.line(f"run {results.run}{ended}: {config.model} on {config.dataset}, {ranks}{after}")
    output.line(
        f"{images} images per rank and step, learning rate up to {results.peak_learning_rate:g}, "
        f"{config.precision}, seed {config.seed}, " + ", ".join(f"{k} {v}" for k, v in results.versions.items())
    )
    output.table(
        ("epoch", "loss", "top-1", "test loss", "test top-1", "test top-5", "images/s", "seconds"),
        [
            (e.epoch, f"{e.train.loss:.4f}", f"{e.train.top1:.2%}", f"{e.test.loss:.4f}", f"{e.test.top1:.2%}",
             f"{e.test.top5:.2%}", f"{e.images_per_second:.0f}" if e.images_per_second else "-", f"{e.seconds:.1f}")
            for e in results.epochs
        ],
    )  # fmt: skip
    if top1 is not None:
        output.line(accuracy.describe(results, top1))
    if explanation := explain(results):
        output.line(str(explanation))
