"""Commands for runs that were started: logs, state and results."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import plot, progress, state
from orchestrator.cli import chosen_cluster, output, result_tables, shell_completion
from orchestrator.cli.follow_run import follow_log, require_finished
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError, NodesFailed, StateError, command
from orchestrator.plot import epoch_plot
from orchestrator.runs import collected_files, control, run_record, store
from orchestrator.runs.control import RunState
from orchestrator.runs.run_record import Run
from orchestrator.schema import Results, goal, top1_of
from orchestrator.ssh import Session
from orchestrator.state import StateDir, cluster_lock

PIECE = 1 << 16  # bytes
FOLLOW = "Follow the log until the run ends, then fetch its files; fail if the run did not finish."

RunName = Annotated[
    str | None,
    typer.Argument(help="Name of the run; default: the newest.", autocompletion=shell_completion.runs),
]

Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", help="File (.png, .svg, .pdf, .html) to draw loss, accuracy, images/s and the parts of a step into."
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="top1=SHARE",
        help="Show when the run reached this accuracy (top1=0.75); default: the run's own --until.",
    ),
]


def register(app: typer.Typer) -> None:
    for action in (logs, stop, list_runs, results):
        app.command(name="runs" if action is list_runs else None)(action)


def logs(
    run: RunName = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help=FOLLOW)] = False,
    config_file: ConfigFile = None,
    name: Name = None,
) -> None:
    """Print the log of a run."""
    state_dir = chosen_cluster.state_dir(config_file, name)
    chosen = store.get(state_dir, run)
    if status := store.status(state_dir, chosen):
        output.stream(_fetched_log(state_dir, chosen))
        return require_finished(state_dir, RunState(chosen, status.state, status)) if follow else None
    _, cluster = state.deployed(state_dir)
    if follow:
        return require_finished(state_dir, follow_log(state_dir, cluster, chosen), cluster)
    with control.head_session(state_dir, cluster) as head:
        output.stream(control.log(head, chosen))


def _fetched_log(state_dir: StateDir, run: Run) -> Iterator[bytes]:
    """Yield the fetched log in pieces.

    Raises:
        StateError: The log cannot be read.
    """
    path = state_dir.runs / run.id / "log"
    try:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(PIECE), b"")
    except OSError as error:
        raise StateError(
            f"{path} cannot be read: {error.strerror}", f"restore it; the other files are in {path.parent}"
        ) from None


def stop(run: RunName = None, config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """End a run on all nodes; a training run writes a checkpoint first."""
    state_dir, _, cluster = chosen_cluster.deployed(config_file, name)
    chosen = _recorded(state_dir, cluster, run)
    with control.head_session(state_dir, cluster) as head:
        if _is_active(state_dir, head, chosen):
            with progress.step(f"Stopping {chosen.id}"):
                control.stop(head, chosen)
        elif run is None:
            _require_no_other(head, state_dir, chosen)
        if not store.is_collected(state_dir, chosen):
            with progress.step("Saving its files"):
                collected_files.collect(state_dir, head, chosen)
        run_state = control.get_state(state_dir, head, chosen)
    if run_state.status is None or run_state.status.left:
        control.sweep(state_dir, cluster, chosen)
    output.as_json(run_state) if json else output.line(f"run {chosen.id}: {run_state.state}")
    if run_state.state != "finished":
        progress.note(collected_files.how_to_resume(state_dir, chosen))


def _require_no_other(head: Session, state_dir: StateDir, newest: Run) -> None:
    """Refuse to take the newest run for the one to stop, if it is not active and another is.

    Runs are in order of the clocks of the machines that started them: a clock may be wrong, or set back. And another
    state directory may have started a run.

    Raises:
        StateError: Another run is active.
    """
    for other in set(control.active(head)) - {newest.id, newest.queue}:
        raise StateError(
            f"run {newest.id}, the newest by the clock of the machine that started it, is not active; {other} is",
            f"{command(f'stop {other}', state_dir.name)} stops that one",
        )


def _recorded(state_dir: StateDir, cluster: Cluster, name: str | None) -> Run:
    """Return the record of a run. Raises StateError, also for an active run that was started on another machine."""
    try:
        return store.get(state_dir, name)
    except StateError:
        with suppress(NodesFailed), control.head_session(state_dir, cluster) as head:
            if name and name in control.active(head):
                raise StateError(
                    f"run {name} was started with another state directory, which alone has its record",
                    f"stop it there; or on the head ({command('ssh', state_dir.name)}) `sudo systemctl stop "
                    f"{run_record.UNIT}{name}` ends it, and its files stay in {run_record.directory(name)}",
                ) from None
        raise


def _is_active(state_dir: StateDir, head: Session, run: Run) -> bool:
    """Tell whether a run is active. Raises StateError if another command starts a run, perhaps this one.

    A run is recorded before its unit exists: until then it seems to be lost.
    """
    if (run_state := control.get_state(state_dir, head, run)).state == "lost":
        with cluster_lock.starting(state_dir):
            run_state = control.get_state(state_dir, head, run)
    return run_state.state in control.ACTIVE


def list_runs(config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """List the runs of a cluster, also after a teardown."""
    state_dir = chosen_cluster.state_dir(config_file, name)
    record = state.read(state_dir)
    for problem in store.damaged(state_dir).values():
        progress.note(f"left out: {problem}")
    run_states = control.overview(state_dir, record.cluster if record else None)
    if not run_states and record is None:
        progress.note(state.deployed_clusters())
    if json:
        return output.as_json([result_tables.as_record(run_state) for run_state in run_states])
    result_tables.runs_table(run_states) if run_states else output.line(f"cluster {state_dir.name}: no runs yet")


def results(
    run: RunName = None,
    plot_file: Plot = None,
    until: Until = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Show the results of a run: its configuration and every epoch, or the path of a script's files."""
    top1 = _top1(until)
    if plot_file:
        plot.require(plot_file, epoch_plot.FORMATS)
    state_dir = chosen_cluster.state_dir(config_file, name)
    chosen = store.get(state_dir, run)
    record = state.read(state_dir)
    if record and record.cluster:
        collected_files.collect_missing(state_dir, record.cluster, chosen)
    directory = state_dir.runs / chosen.id
    if not (directory / "log").exists():
        shown = command(f"logs {chosen.id}", state_dir.name)
        raise StateError(f"run {chosen.id} left no files that could be fetched", f"{shown} shows its log")
    if plot_file:
        epoch_plot.draw(_trained(directory, chosen.id), plot_file, top1)
        progress.note(f"wrote {plot_file}")
    [run_state] = control.overview(state_dir, record.cluster if record else None, [chosen])
    result_tables.run(run_state, directory, json, top1)


def _top1(until: str | None) -> float | None:
    """Return the accuracy that ``--until`` names. Raises ConfigError."""
    try:
        return None if goal(until) is None else top1_of(goal(until))
    except ValueError as error:
        raise ConfigError([f"--until: {error}"]) from None


def _trained(directory: Path, run: str) -> Results:
    results = result_tables.trained(directory)
    if results is None:
        raise StateError(f"run {run} left no results.json to draw", "a training run writes it when it begins")
    return results
