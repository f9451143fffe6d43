"""teardown: everything that was made is removed, whatever part of it is there, and a receipt says so."""

from contextlib import suppress
from dataclasses import dataclass

from orchestrator import ansible, lock, progress, providers, records, runs, state
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError, command
from orchestrator.launch import Run
from orchestrator.monitoring import access, series
from orchestrator.notes import noting
from orchestrator.providers import Resource
from orchestrator.ssh import Session
from orchestrator.state import Home, Record

ANSWER_SECONDS, SERIES_SECONDS = 15.0, 300.0  # for Prometheus to be there, and for all runs' series together


@dataclass(frozen=True)
class Receipt:
    """What a teardown found made, and what of it is left."""

    cluster: str
    made: list[Resource]
    left: list[Resource]

    @property
    def gone(self) -> list[Resource]:
        left = {resource.key for resource in self.left}
        return [resource for resource in self.made if resource.key not in left]


def teardown(name: str, wanted: Config | None = None, keep_metrics: bool = True) -> Receipt:
    """Remove a cluster, whatever part of it is there; runs and their results stay. Needs only the state directory.

    With ``keep_metrics``, what Prometheus has of each run is put beside its results.

    Where that knows nothing of it, what the provider of the ``wanted`` one has under its name is mentioned.
    """
    place = state.home(name)
    if state.read(place) is None:
        _mention_orphans(wanted or Config(name=name))
        return Receipt(name, [], [])
    with lock.held(place):
        record = state.read(place)
        if record is None:
            return Receipt(name, [], [])
        provider = providers.of(record)
        made = provider.survey(record)
        _save_runs(place, record)
        if keep_metrics:
            _save_series(place, record)
        with progress.step("Destroying") as step:
            provider.destroy(place, record, step.detail)
        left = provider.survey(record)
        if not left:
            ansible.forget(place)
            state.forget(place)
    return Receipt(name, made, left)


def _mention_orphans(wanted: Config) -> None:
    """Nothing is known here, but something may be there all the same."""
    with suppress(OrchestratorError):
        found = orphans(wanted)
        if found:
            listed, removes = ", ".join(map(str, found)), command("teardown --orphans", wanted.name)
            progress.note(f"not of this state directory, and left alone: {listed}; {removes} removes them")


def _save_runs(place: Home, record: Record) -> None:
    """Stop what runs and fetch what was not fetched, as far as that can be done: nothing here holds a teardown up."""
    with noting("runs could not be saved"):
        pending = [run for run in records.known(place) if not records.is_collected(place, run)]
        if pending and record.cluster:
            with progress.step("Saving results of runs") as step, runs.head_session(place, record.cluster) as head:
                for run in pending:
                    step.detail(run.id)
                    with noting(f"run {run.id} could not be saved"):
                        _save_run(place, head, run)


def _save_run(place: Home, head: Session, run: Run) -> None:
    if runs.look(place, head, run).state == "running":
        runs.stop(head, run)
    records.collect(place, head, run)


def _save_series(place: Home, record: Record) -> None:
    """Keep the series of each run that has none here yet. A Prometheus that is slow, or gone, holds no teardown up."""
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


def orphans(config: Config) -> list[Resource]:
    """What carries the label of the cluster although this state directory does not know it."""
    provider, record = providers.get(config.provider), state.read(state.home(config.name))
    known = {resource.key for resource in providers.of(record).survey(record)} if record else set()
    return [resource for resource in provider.strangers(config) if resource.key not in known]


def remove_orphans(config: Config, found: list[Resource]) -> Receipt:
    """Remove of ``found`` what is still there and still an orphan, and nothing else."""
    shown = {resource.key for resource in found}
    with lock.held(state.home(config.name)):
        providers.get(config.provider).remove(config, [r for r in orphans(config) if r.key in shown])
        left = {resource.key for resource in orphans(config)}
    return Receipt(config.name, found, [resource for resource in found if resource.key in left])
