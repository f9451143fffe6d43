"""Follow a run that a command started and show its results, or print how to follow it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from orchestrator import progress, state
from orchestrator.cli import output, result_tables
from orchestrator.cluster import Cluster
from orchestrator.errors import RunFailed, RunStopped
from orchestrator.errors import command as spell
from orchestrator.runs import collected_files, control, store
from orchestrator.runs.control import RunState
from orchestrator.runs.run_record import Run
from orchestrator.state import StateDir

Content = TypeVar("Content", bound=BaseModel)
# Gets a run, the directory of its fetched files, and whether to print JSON.
Show = Callable[[RunState, Path, bool], None]


def follow(
    state_dir: StateDir,
    cluster: Cluster,
    run: Run,
    json: bool,
    show: Show = result_tables.run,
    detach: bool = False,
    quiet: bool = False,
) -> None:
    """Follow ``run`` to its end and show its results, or print how to follow it.

    The log is printed on standard output; with ``json`` or ``quiet``, on standard error.

    Args:
        state_dir: State directory of the cluster.
        cluster: The cluster that the run is on.
        run: The run, already started.
        json: Print JSON.
        show: Prints the results.
        detach: Return at once; the run continues.
        quiet: Keep the log out of standard output.

    Raises:
        RunFailed: The run did not finish.
    """
    if detach:
        return _detached(run, cluster, json)
    run_state = follow_log(state_dir, cluster, run, json or quiet)
    require_finished(state_dir, run_state, cluster)
    show(run_state, state_dir.runs / run.id, json)


def show_file(file: str, form: type[Content], show: Callable[[Content], None]) -> Show:
    """Return a function that shows the results of a run that leaves ``file``.

    Args:
        file: Name of the file in the run's directory.
        form: Model of its content.
        show: Prints the content.

    Returns:
        A function for ``show`` of :func:`follow`.
    """

    def shown(_: RunState, directory: Path, json: bool) -> None:
        """Load the file from ``directory`` and print it."""
        content = state.load(directory / file, form, "run it again")
        output.as_json(content) if json else show(content)

    return shown


def follow_log(state_dir: StateDir, cluster: Cluster, run: Run, quiet: bool = False) -> RunState:
    """Print the log of ``run`` to its end and fetch its files; Ctrl-C does not end it.

    Args:
        state_dir: State directory of the cluster.
        cluster: The cluster that the run is on.
        run: The run, already started.
        quiet: Print the log on standard error.

    Returns:
        How it ended.
    """
    try:
        output.stream(control.watch(state_dir, cluster, run), to_stderr=quiet)
    except KeyboardInterrupt:
        progress.note(f"run {run.id} continues: {_further(run, cluster)}")
        raise
    try:
        with control.head_session(state_dir, cluster) as head:
            run_state = control.get_state(state_dir, head, run)
            if not store.is_collected(state_dir, run):
                collected_files.collect(state_dir, head, run)
    except KeyboardInterrupt:
        progress.note(f"run {run.id} has ended; {spell(f'results {run.id}', cluster.name)} fetches its files")
        raise
    return run_state


def require_finished(state_dir: StateDir, run_state: RunState, cluster: Cluster | None = None) -> None:
    """Check that a run finished, after its whole log was printed.

    Args:
        state_dir: State directory of the cluster.
        run_state: The run, which has ended and is fetched.
        cluster: The cluster that the run was on, to name its nodes; None leaves out the cause.

    Raises:
        RunFailed: The run did not finish.
        RunStopped: It is a training run that left a checkpoint; the codes of scripts have other meanings.
    """
    if run_state.state == "finished":
        return
    run, code = run_state.run, run_state.status.exit_code if run_state.status else None
    kind = RunStopped if code == RunStopped.exit_code and not run.is_script else RunFailed
    cause = control.cause(run_state, cluster) if cluster else f"has ended: {run_state.state}"
    raise kind(f"run {run.id} {cause}", collected_files.how_to_resume(state_dir, run))


def _detached(run: Run, cluster: Cluster, json: bool) -> None:
    if json:
        return output.as_json(run)
    output.line(run.id)
    progress.note(_further(run, cluster))


def _further(run: Run, cluster: Cluster) -> str:
    watch, end = spell(f"logs -f {run.id}", cluster.name), spell(f"stop {run.id}", cluster.name)
    return f"{watch} follows it, {end} ends it"
