"""Save the series that only the cluster's Prometheus has, before it is removed."""

import time
from collections.abc import Callable, Sequence

from orchestrator import progress
from orchestrator.errors import OrchestratorError
from orchestrator.monitoring import connection, run_series
from orchestrator.monitoring.prometheus import Prometheus
from orchestrator.progress import log_errors
from orchestrator.runs import store
from orchestrator.runs.run_record import Run
from orchestrator.state import Record, StateDir

ANSWER_SECONDS = 15.0  # until Prometheus answers
RUN_SERIES_SECONDS, ALL_SERIES_SECONDS = 300.0, 1800.0  # for the series of a run; for those of all runs together


def save(state_dir: StateDir, record: Record) -> None:
    """Save the series of each run that has none on this machine, the newest first; print the runs that lose them.

    A slow or missing Prometheus is not an error.
    """
    with log_errors("metrics of runs could not be saved"):
        runs = [run for run in reversed(store.list_runs(state_dir)) if not run.is_script]
        pending = [run for run in runs if not run_series.directory(state_dir, run).exists()]
        if not (pending and record.cluster and connection.is_enabled(record)):
            return
        with (
            log_errors(_not_saved(pending)),
            progress.step("Saving metrics of runs") as step,
            connection.connect(state_dir, record, record.cluster, ANSWER_SECONDS, ALL_SERIES_SECONDS) as (
                prometheus,
                _,
            ),
        ):
            has = run_series.list_runs(prometheus)
            _save_each(state_dir, prometheus, [run for run in pending if run.id in has], step.detail)


def _save_each(state_dir: StateDir, prometheus: Prometheus, runs: Sequence[Run], detail: Callable[[str], None]) -> None:
    """Save the series of ``runs`` in this order; stop only if Prometheus does not answer any more."""
    until = prometheus.until
    for number, run in enumerate(runs):
        detail(run.id)
        try:
            prometheus.until = min(until, time.monotonic() + ANSWER_SECONDS)
            prometheus.now()
        except OrchestratorError as error:
            return progress.note(f"{_not_saved(runs[number:])}: {error}")
        prometheus.until = min(until, time.monotonic() + RUN_SERIES_SECONDS)
        with log_errors(_not_saved([run])):
            run_series.save(state_dir, prometheus, run, store.status(state_dir, run))


def _not_saved(runs: Sequence[Run]) -> str:
    return f"metrics of {'run' if len(runs) == 1 else 'runs'} {', '.join(run.id for run in runs)} could not be saved"
