"""What a cluster alone has of its runs, fetched before it goes."""

import tarfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from orchestrator import progress, providers, records, runs, terraform
from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed, OrchestratorError, StateError, command
from orchestrator.launch import Run
from orchestrator.monitoring import access, series
from orchestrator.notes import noting
from orchestrator.ssh import Session
from orchestrator.state import Home, Record

ANSWER_SECONDS, SERIES_SECONDS = 15.0, 300.0  # for Prometheus to be there, and for all runs' series together
FETCH_SECONDS = 60.0  # for another command that fetches the same run: it may have been suspended
HEAD_SECONDS, PAUSE_SECONDS = 30.0, 2.0  # a head that restarts, or is busy, may answer again
SAVED = ".saved"


def before_new_head(place: Home, record: Record, variables: Mapping[str, Any]) -> None:
    """Fetch the runs if a deploy by ``variables`` may replace the head and the /shared on its disk.

    Raises StateError if a run would be lost.
    """
    provider = record.config["provider"]
    if not (record.cluster and record.configured and record.cluster.storage == "nfs" and terraform.has_root(provider)):
        return
    same = _head(record.applied, provider) == _head(variables, provider)
    stays = same and terraform.is_current(place, provider)
    if stays and not (_pending(place) and _is_broken(place, record, record.cluster)):
        return
    heals = f"{command('deploy', place.name)} with the former settings keeps a head that works"
    require_fetched(place, record, "this deploy may replace the head, and /shared with it", heals, stop=False)
    save_series(place, record)


def _head(variables: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """What the head is made of, among Terraform's variables, and some more; workers may come and go."""
    own = {key: value for key, value in variables.get(provider, {}).items() if key != "worker"}
    return {**own, "key": variables.get("ssh_public_key")}


def _is_broken(place: Home, record: Record, cluster: Cluster) -> bool:
    """Whether the provider says of the head that it must be made again."""
    recorded = terraform.recorded(place, record.config["provider"]).recorded
    return any(f'["{cluster.head}"]' in address for address in providers.of(record).lost(record, recorded))


def require_fetched(place: Home, record: Record, what: str, remedy: str, stop: bool) -> None:
    """Fetch every run that is not here yet, before the cluster's storage goes.

    Args:
        place: The cluster's state directory.
        record: The cluster as it was deployed.
        what: What would remove the runs.
        remedy: What keeps them.
        stop: Whether to stop runs that are under way; otherwise they count as not fetched.

    Raises:
        StateError: Some could not be fetched. It names them.
    """
    lost = fetch(place, record, stop, HEAD_SECONDS)
    if lost:
        reasons = [f"{run}: {reason}" for run, reason in lost.items()]
        count = f"{len(lost)} {'run is' if len(lost) == 1 else 'runs are'} not fetched"
        gives_up = f"{command('teardown --discard-runs', place.name)} gives these runs up"
        raise StateError("\n".join([f"{what}: {count}", *reasons]), f"{remedy}; {gives_up}")


def fetch(place: Home, record: Record, stop: bool, seconds: float) -> dict[str, str]:
    """Fetch every run that is not here yet. Returns those that could not be fetched, each with the reason.

    A head that does not answer is asked again for so many ``seconds``.
    """
    pending = _pending(place)
    lost = dict.fromkeys((run.id for run in pending), "")
    if not (pending and record.cluster and record.configured):
        return {}
    try:
        with progress.step("Saving results of runs") as step, ExitStack() as stack:
            head = _patient_session(stack, place, record.cluster, seconds)
            for run in pending:
                step.detail(run.id)
                lost[run.id] = _save_run(place, head, run, stop)
    except OrchestratorError as error:
        lost = {run: reason or error.message for run, reason in lost.items() if not _is_saved(place, run)}
    return {run: reason for run, reason in lost.items() if reason}


def _patient_session(stack: ExitStack, place: Home, cluster: Cluster, seconds: float) -> Session:
    """A session on the head, tried for so many ``seconds``. Raises NodesFailed."""
    until, said = time.monotonic() + seconds, False
    while True:
        try:
            return stack.enter_context(runs.head_session(place, cluster))
        except NodesFailed as failed:
            if time.monotonic() > until:
                raise
            if not said:
                progress.note(f"{failed.message}\ntrying for another {seconds:.0f} s: it may have runs not fetched yet")
            said = True
            time.sleep(PAUSE_SECONDS)


def give_up(place: Home, lost: Iterable[str]) -> None:
    """Ask for these runs no more: the user said so."""
    for run in lost:
        (place.runs / run / SAVED).touch()


def _pending(place: Home) -> list[Run]:
    return [run for run in records.known(place) if not (records.is_collected(place, run) or _is_saved(place, run.id))]


def _save_run(place: Home, head: Session, run: Run, stop: bool) -> str:
    """Why it could not be fetched; "" if it was."""
    try:
        if runs.look(place, head, run).state == "running":
            if not stop:
                return "it is running"
            runs.stop(head, run)
        records.collect(place, head, run, FETCH_SECONDS)
        (place.runs / run.id / SAVED).touch()
    except (OrchestratorError, OSError, ValueError, tarfile.TarError) as error:
        return str(error)
    return ""


def _is_saved(place: Home, run: str) -> bool:
    """Whether all that was left of it is here: a run whose head went down under it never says that it ended."""
    return (place.runs / run / SAVED).exists()


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
