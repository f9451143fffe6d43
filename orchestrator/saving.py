"""What a cluster alone has of its runs, fetched before the head goes."""

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator import progress, records, runs, terraform
from orchestrator.errors import StateError, command
from orchestrator.launch import Run
from orchestrator.monitoring import access, series
from orchestrator.notes import noting
from orchestrator.ssh import Session
from orchestrator.state import Home, Record

ANSWER_SECONDS, SERIES_SECONDS = 15.0, 300.0  # for Prometheus to be there, and for all runs' series together
FETCH_SECONDS = 60.0  # for another command that fetches the same run: it may have been suspended
SAVED = ".saved"


def before_new_head(place: Home, record: Record, variables: Mapping[str, Any]) -> None:
    """Where a deploy may put another head in the place of the one that /shared is on. Raises StateError where a run
    would be lost by it.
    """
    made, provider = record.cluster, record.config["provider"]
    if made is None or not record.configured:  # no run was ever on it
        return
    stays = _head(record.applied, provider) == _head(variables, provider)
    if stays or made.storage != "nfs" or not terraform.has_root(provider):
        return
    lost: list[str] = []
    save_runs(place, record, lost.append, stop=False)
    if lost:
        deploy, teardown = command("deploy", place.name), command("teardown", place.name)
        back = f"{deploy} with the settings of before heals the head; {teardown} gives these runs up"
        raise StateError("\n".join(["the head may be made anew, and /shared with it", *lost]), back)
    save_series(place, record)


def _head(variables: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """What the head is made of, among Terraform's variables, and some more; workers may come and go."""
    own = {key: value for key, value in variables.get(provider, {}).items() if key != "worker"}
    return {**own, "key": variables.get("ssh_public_key")}


def save_runs(place: Home, record: Record, say: Callable[[str], None] = progress.note, stop: bool = True) -> None:
    """Stop what runs and fetch what was not fetched, as far as that can be done; what could not be is told."""
    with noting("runs could not be saved", say):
        pending = [run for run in records.known(place) if not (records.is_collected(place, run) or _saved(place, run))]
        if pending and record.cluster:
            with progress.step("Saving results of runs") as step, runs.head_session(place, record.cluster) as head:
                for run in pending:
                    step.detail(run.id)
                    with noting(f"run {run.id} could not be saved", say):
                        _save_run(place, head, run, stop)


def _save_run(place: Home, head: Session, run: Run, stop: bool) -> None:
    if runs.look(place, head, run).state == "running":
        if not stop:
            raise StateError("it is running")
        runs.stop(head, run)
    records.collect(place, head, run, FETCH_SECONDS)
    (place.runs / run.id / SAVED).touch()


def _saved(place: Home, run: Run) -> bool:
    """Whether all that was left of it is here: a run whose head went down under it never says that it ended."""
    return (place.runs / run.id / SAVED).exists()


def save_series(place: Home, record: Record) -> None:
    """Keep the series of each run that has none here yet. A Prometheus that is slow, or gone, holds nothing up."""
    with noting("series of runs could not be kept"):
        pending = [run for run in records.known(place) if not series.directory(place, run).exists()]
        if not (pending and record.cluster and access.watched(record)):
            return
        with (
            progress.step("Keeping series of runs") as step,
            access.asking(place, record, record.cluster, ANSWER_SECONDS, SERIES_SECONDS) as (prometheus, _),
        ):
            has = series.known(prometheus)
            for run in [run for run in pending if run.id in has]:
                step.detail(run.id)
                status = records.status(place, run)
                series.keep(place, prometheus, run, status.ended if status else None)
