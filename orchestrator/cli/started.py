"""What commands that start a run end with: where to look for it, or what it gave once it is over."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from orchestrator import progress, records, runs, state
from orchestrator.cli import output, reports
from orchestrator.cluster import Cluster
from orchestrator.errors import RunFailed, RunStopped
from orchestrator.errors import command as spell
from orchestrator.launch import Run
from orchestrator.runs import Seen
from orchestrator.state import Home

Left = TypeVar("Left", bound=BaseModel)
Show = Callable[[Seen, Path, bool], None]  # of a run and the directory with what was fetched of it; as JSON or not


def follow(
    place: Home,
    cluster: Cluster,
    run: Run,
    json: bool,
    show: Show = reports.run,
    detach: bool = False,
    quiet: bool = False,
) -> None:
    """Show what ``run`` gave at its end, or where to look for it where it is to go on by itself.

    Its log is part of what is shown, unless that is JSON or ``quiet``: then it goes to standard error.
    """
    if detach:
        return _detached(run, cluster, json)
    show(_finished(place, cluster, run, json or quiet), place.runs / run.id, json)


def left(file: str, form: type[Left], show: Callable[[Left], None]) -> Show:
    """How a run is shown that leaves a ``file`` of this ``form``."""

    def shown(_: Seen, directory: Path, json: bool) -> None:
        found = state.load(directory / file, form, "run it again")
        output.as_json(found) if json else show(found)

    return shown


def _finished(place: Home, cluster: Cluster, run: Run, quiet: bool) -> Seen:
    """Follow ``run`` to its end and fetch what it left; raises RunFailed where it did not finish.

    A Ctrl-C here leaves it running.
    """
    try:
        output.stream(runs.watch(place, cluster, run), to_stderr=quiet)
        with runs.head_session(place, cluster) as head:
            seen = runs.look(place, head, run)
            records.collect(place, head, run)
    except KeyboardInterrupt:
        progress.note(f"run {run.id} goes on: {_further(run, cluster)}")
        raise
    if seen.state != "finished":
        raise _failed(place, cluster, seen)
    return seen


def _failed(place: Home, cluster: Cluster, seen: Seen) -> RunFailed:
    run, failure = seen.run, seen.status.failure if seen.status else None
    cause = f"failed: {runs.describe(failure, cluster)}" if failure else f"was {seen.state}"
    hint = f"{spell(f'logs {run.id}', cluster.name)} shows everything"
    if records.is_resumable(place, run):
        hint += f", {spell(f'train --resume {run.id}', cluster.name)} goes on from its newest checkpoint"
    kind = RunStopped if seen.status and seen.status.exit_code == RunStopped.exit_code else RunFailed
    return kind(f"run {run.id} {cause}", hint)


def _detached(run: Run, cluster: Cluster, json: bool) -> None:
    if json:
        return output.as_json(run)
    output.line(run.id)
    progress.note(_further(run, cluster))


def _further(run: Run, cluster: Cluster) -> str:
    watch, end = spell(f"logs -f {run.id}", cluster.name), spell(f"stop {run.id}", cluster.name)
    return f"{watch} follows it, {end} ends it"
