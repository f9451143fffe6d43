"""Commands about runs that were started: what they say, how they stand, what they gave."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import plot, progress, records, runs, state
from orchestrator.cli import options, output, reports
from orchestrator.cli.options import ConfigFile, Json, Name, completed
from orchestrator.errors import StateError, command
from orchestrator.launch import Run
from orchestrator.plot import epochs
from orchestrator.schema import Results
from orchestrator.state import Home

PIECE = 1 << 16  # bytes

RunName = Annotated[str | None, completed("Which run; default: the newest.", options.run_names)]

Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="File (.png, .svg, .pdf, .html) to draw loss, accuracy, images/s and time split into."),
]


def register(app: typer.Typer) -> None:
    for action in (logs, stop, list_runs, results):
        app.command(name="runs" if action is list_runs else None)(action)


def logs(
    run: RunName = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    config_file: ConfigFile = None,
    name: Name = None,
) -> None:
    """Print what a run has written."""
    place = options.place(config_file, name)
    chosen = records.get(place, run)
    if records.is_collected(place, chosen):
        return output.stream(_kept_log(place, chosen))
    _, cluster = state.deployed(place)
    if follow:
        return output.stream(runs.watch(place, cluster, chosen))
    with runs.head_session(place, cluster) as head:
        output.stream(runs.log(head, chosen))


def _kept_log(place: Home, run: Run) -> Iterator[bytes]:
    """The log that was fetched, in pieces. Raises StateError if it cannot be read."""
    path = place.runs / run.id / "log"
    try:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(PIECE), b"")
    except OSError as error:
        raise StateError(
            f"{path} cannot be read: {error.strerror}", f"restore it; {path.parent} has the rest"
        ) from None


def stop(run: RunName = None, config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """Stop a run; no process of it stays on any node."""
    place, _, cluster = options.deployed(config_file, name)
    chosen = records.get(place, run)
    with runs.head_session(place, cluster) as head:
        if runs.look(place, head, chosen).state == "running":
            with progress.step(f"Stopping {chosen.id}"):
                runs.stop(head, chosen)
        if not records.is_collected(place, chosen):
            with progress.step("Saving what it left"):
                records.collect(place, head, chosen)
        seen = runs.look(place, head, chosen)
    if seen.status is None or seen.status.left:
        runs.sweep(place, cluster, chosen)
    output.as_json(seen) if json else output.line(f"run {chosen.id}: {seen.state}")
    if seen.state != "finished" and records.is_resumable(place, chosen):
        progress.note(f"{command(f'train --resume {chosen.id}', cluster.name)} goes on from its newest checkpoint")


def list_runs(config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """List the cluster's runs, also after it is gone."""
    place = options.place(config_file, name)
    record = state.read(place)
    for problem in records.damaged(place):
        progress.note(f"left out: {problem}")
    seen = runs.overview(place, record.cluster if record else None)
    if json:
        return output.as_json([reports.as_record(one) for one in seen])
    reports.runs_table(seen) if seen else output.line(f"cluster {place.name}: no runs yet")


def results(
    run: RunName = None, plot_file: Plot = None, config_file: ConfigFile = None, name: Name = None, json: Json = False
) -> None:
    """Show what a run gave: its configuration and every epoch, or where the files of a script are."""
    if plot_file:
        plot.require(plot_file, epochs.FORMATS)
    place = options.place(config_file, name)
    chosen = records.get(place, run)
    record = state.read(place)
    if record and record.cluster and not records.is_collected(place, chosen):
        with runs.head_session(place, record.cluster) as head:
            records.collect(place, head, chosen)
    directory = place.runs / chosen.id
    if not (directory / "log").exists():
        shown = command(f"logs {chosen.id}", place.name)
        raise StateError(f"run {chosen.id} left nothing that could be fetched", f"{shown} shows what it wrote")
    if plot_file:
        epochs.draw(_trained(directory, chosen.id), plot_file)
        progress.note(f"wrote {plot_file}")
    [seen] = runs.overview(place, record.cluster if record else None, [chosen])
    reports.run(seen, directory, json)


def _trained(directory: Path, run: str) -> Results:
    found = reports.trained(directory)
    if found is None:
        raise StateError(f"run {run} left no results.json to draw", "a training run leaves one when it begins")
    return found
