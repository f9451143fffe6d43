"""Fetch the runs that only the cluster has, before it is removed."""

import tarfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from orchestrator import progress, providers, terraform
from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed, OrchestratorError, StateError, command
from orchestrator.lifecycle import save_series
from orchestrator.monitoring import connection
from orchestrator.runs import collected_files, control, fetch_limits, run_record, store
from orchestrator.runs.run_record import Run
from orchestrator.ssh import Session
from orchestrator.state import Record, StateDir

FETCH_SECONDS = 60.0  # for another command that fetches the same run; it may be suspended
HEAD_SECONDS, PAUSE_SECONDS = 30.0, 2.0  # a head that restarts or is busy may answer again
SAVED = ".saved"


def before_deploy(state_dir: StateDir, record: Record, new: Record) -> None:
    """Fetch the runs and series that a deploy may remove.

    Args:
        state_dir: State directory of the cluster.
        record: The cluster as it was deployed.
        new: The cluster as the deploy makes it.

    Raises:
        StateError: A run would be lost.
    """
    before_new_head(state_dir, record, new.variables)
    if record.configured and connection.is_enabled(record) and not connection.is_enabled(new):
        save_series.save(state_dir, record)


def before_new_head(state_dir: StateDir, record: Record, variables: Mapping[str, Any]) -> None:
    """Save the series if a deploy may replace the head, and fetch the runs if /shared is on its disk.

    Args:
        state_dir: State directory of the cluster.
        record: The cluster as it was deployed.
        variables: Terraform's variables of the new deploy.

    Raises:
        StateError: A run would be lost.
    """
    provider = record.config["provider"]
    if not (record.cluster and record.configured and terraform.has_root(provider)):
        return
    same = _head(record.applied, provider) == _head(variables, provider)
    stays = same and terraform.is_current(state_dir, provider)
    if record.cluster.storage != "nfs":
        if not stays:
            save_series.save(state_dir, record)
        return
    if stays and not (
        (_pending(state_dir) or _unreadable(state_dir)) and _is_broken(state_dir, record, record.cluster)
    ):
        return
    heals = f"{command('deploy', state_dir.name)} with the previous settings keeps the head"
    require_fetched(state_dir, record, "this deploy may replace the head, and /shared with it", heals, stop=False)
    save_series.save(state_dir, record)


def _head(variables: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """Select those of Terraform's ``variables`` that the head depends on, and a few more."""
    others = ("worker", "grafana")
    head_variables = {key: value for key, value in variables.get(provider, {}).items() if key not in others}
    return {**head_variables, "key": variables.get("ssh_public_key")}


def _is_broken(state_dir: StateDir, record: Record, cluster: Cluster) -> bool:
    """Return whether the provider reports that the head must be replaced."""
    recorded = terraform.recorded(state_dir, record.config["provider"]).recorded
    return any(f'["{cluster.head}"]' in address for address in providers.of(record).to_replace(record, recorded))


def require_fetched(state_dir: StateDir, record: Record, what: str, remedy: str, stop: bool) -> None:
    """Fetch every run that is not on this machine yet, before the cluster's storage is removed.

    Args:
        state_dir: State directory of the cluster.
        record: The cluster as it was deployed.
        what: What would remove the runs, for the message.
        remedy: What keeps them, for the message.
        stop: Whether to stop runs that are under way; otherwise they count as not fetched.

    Raises:
        StateError: Some runs could not be fetched; it names them.
    """
    lost = fetch(state_dir, record, stop, HEAD_SECONDS)
    if lost:
        reasons = [f"{run}: {reason}" for run, reason in lost.items()]
        count = f"{len(lost)} {'run is' if len(lost) == 1 else 'runs are'} not fetched"
        gives_up = f"{command('teardown --discard-runs', state_dir.name)} gives up these runs"
        raise StateError("\n".join([f"{what}: {count}", *reasons]), f"{remedy}; {gives_up}")


def fetch(state_dir: StateDir, record: Record, stop: bool, seconds: float) -> dict[str, str]:
    """Fetch every run that is not on this machine yet; a run without a readable record here is not fetched.

    Args:
        state_dir: State directory of the cluster.
        record: The cluster as it was deployed.
        stop: Whether to stop runs that are under way; otherwise they count as not fetched.
        seconds: How long to retry if the head does not answer.

    Returns:
        The runs that could not be fetched, each with the reason.
    """
    if not (record.cluster and record.configured):
        return {}
    pending = _fetch_pending(state_dir, record.cluster, stop, seconds) | _unreadable(state_dir)
    return pending | _of_others(state_dir, record.cluster)


def _fetch_pending(state_dir: StateDir, cluster: Cluster, stop: bool, seconds: float) -> dict[str, str]:
    pending = _pending(state_dir)
    if not pending:
        return {}
    lost = dict.fromkeys((run.id for run in pending), "")
    try:
        with progress.step("Saving results of runs") as step, ExitStack() as stack:
            head = _retrying_session(stack, state_dir, cluster, seconds)
            for run in pending:
                step.detail(run.id)
                lost[run.id] = _save_run(state_dir, head, run, stop)
    except OrchestratorError as error:
        lost = {run: reason or error.message for run, reason in lost.items() if not _is_saved(state_dir, run)}
    return {run: reason for run, reason in lost.items() if reason}


def _retrying_session(stack: ExitStack, state_dir: StateDir, cluster: Cluster, seconds: float) -> Session:
    """Connect to the head, retrying for some ``seconds``. Raises NodesFailed."""
    until, warned = time.monotonic() + seconds, False
    while True:
        try:
            return stack.enter_context(control.head_session(state_dir, cluster))
        except NodesFailed as failed:
            if time.monotonic() > until:
                raise
            if not warned:
                progress.note(f"{failed.message}\nretrying for {seconds:.0f} s: it may have runs not fetched yet")
            warned = True
            time.sleep(PAUSE_SECONDS)


def mark_lost(state_dir: StateDir, lost: Iterable[str]) -> None:
    """Mark runs as lost, at the user's wish, so that no later command tries to fetch them."""
    for run in lost:
        if (state_dir.runs / run).is_dir():  # else it was started elsewhere
            (state_dir.runs / run / SAVED).touch()


def unfetched(state_dir: StateDir) -> list[str]:
    """Return the runs that are not on this machine, as far as their records are."""
    return [*(run.id for run in _pending(state_dir)), *_unreadable(state_dir)]


def _pending(state_dir: StateDir) -> list[Run]:
    return [
        run
        for run in store.list_runs(state_dir)
        if not (store.is_collected(state_dir, run) or _is_saved(state_dir, run.id))
    ]


def _unreadable(state_dir: StateDir) -> dict[str, str]:
    """Return the runs whose record was damaged before they were fetched, each with the damage."""
    return {
        run: f"{problem}; restore it from a copy"
        for run, problem in store.damaged(state_dir).items()
        if not (store.read_status(state_dir.runs / run) or _is_saved(state_dir, run))
    }


def _of_others(state_dir: StateDir, cluster: Cluster) -> dict[str, str]:
    """Return the runs on the head that this state directory has nothing of, each with a reason not to lose it.

    They were started with a copy of the state directory, on another machine. A head that does not answer as expected
    has none, so that it can be removed.
    """
    with suppress(OrchestratorError), control.head_session(state_dir, cluster) as head:
        active = control.active(head)
        # A run has a log from its start.
        argv = ["find", run_record.directory(""), "-mindepth", "2", "-maxdepth", "2", "-name", fetch_limits.LOG]
        logs = head.run([*argv, "-printf", "%P\n"]).output.splitlines()
        ended = fetch_limits.run_ids([path.partition("/")[0] for path in logs], head)
        others = [run for run in dict.fromkeys([*active, *ended]) if not (state_dir.runs / run).exists()]
        how = {run: "is in progress" if run in active else "may have no other copy" for run in others}
        return {run: f"it was started with another state directory, and {how[run]}" for run in others}
    return {}


def _save_run(state_dir: StateDir, head: Session, run: Run, stop: bool) -> str:
    """Fetch a run; return the reason if that failed, else ""."""
    try:
        if control.get_state(state_dir, head, run).state in control.ACTIVE:
            if not stop:
                return "it is running"
            control.stop(head, run)
        collected = collected_files.collect(state_dir, head, run, FETCH_SECONDS)
        if collected.excess:
            return f"{fetch_limits.OUTPUT}: {collected.excess}"  # said once: the run now counts as collected
        (state_dir.runs / run.id / SAVED).touch()
    except (OrchestratorError, OSError, ValueError, tarfile.TarError) as error:
        return str(error)
    return ""


def _is_saved(state_dir: StateDir, run: str) -> bool:
    """Return whether all that exists of a run was fetched: a run never reports its end if its head failed under it."""
    return (state_dir.runs / run / SAVED).exists()
