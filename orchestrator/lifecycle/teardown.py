"""Teardown: remove all resources of a cluster, whatever part of it exists, and return a receipt."""

from contextlib import suppress
from dataclasses import dataclass

from orchestrator import lock, progress, providers, state
from orchestrator.ansible import runner
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError, command
from orchestrator.lifecycle import archive
from orchestrator.providers import Resource
from orchestrator.state import Home, Record


@dataclass(frozen=True)
class Receipt:
    """Resources that a teardown found, and those that are left."""

    cluster: str
    made: list[Resource]
    left: list[Resource]

    @property
    def gone(self) -> list[Resource]:
        left = {resource.key for resource in self.left}
        return [resource for resource in self.made if resource.key not in left]


def teardown(name: str, wanted: Config | None = None, keep_metrics: bool = True, discard_runs: bool = False) -> Receipt:
    """Remove a cluster, whatever part of it exists; runs and their results stay. Only the state directory is needed.

    Args:
        name: The cluster.
        wanted: The configuration of cluster.yaml; if nothing is deployed, orphans that its provider has are mentioned.
        keep_metrics: Save the Prometheus series of each run with its results.
        discard_runs: Continue if runs cannot be fetched.

    Returns:
        The resources found, and those left.

    Raises:
        StateError: Runs cannot be fetched; nothing was removed.
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
        if made:  # without resources no run is left to save
            _save_runs(place, record, discard_runs)
        if keep_metrics:
            archive.save_series(place, record)
        with progress.step("Destroying") as step:
            provider.destroy(place, record, step.detail)
        left = provider.survey(record)
        if not left:
            runner.forget(place)
            state.forget(place)
    return Receipt(name, made, left)


def _save_runs(place: Home, record: Record, discard: bool) -> None:
    if not discard:
        heals = f"{command('deploy', place.name)} heals the head"
        return archive.require_fetched(place, record, "teardown would remove the only copy", heals, stop=True)
    lost = archive.fetch(place, record, stop=True, seconds=0.0)
    archive.give_up(place, lost)
    for run, reason in lost.items():
        progress.note(f"run {run} is discarded: {reason}")


def _mention_orphans(wanted: Config) -> None:
    """Print the orphans of a cluster that this state directory does not know."""
    with suppress(OrchestratorError):
        found = orphans(wanted)
        if found:
            listed, removes = ", ".join(map(str, found)), command("teardown --orphans", wanted.name)
            progress.note(f"not of this state directory, and left alone: {listed}; {removes} removes them")


def orphans(config: Config) -> list[Resource]:
    """Return the resources that carry the cluster's label but are unknown to this state directory."""
    provider, record = providers.get(config.provider), state.read(state.home(config.name))
    known = {resource.key for resource in providers.of(record).survey(record)} if record else set()
    return [resource for resource in provider.strangers(config) if resource.key not in known]


def remove_orphans(config: Config, found: list[Resource]) -> Receipt:
    """Remove those of ``found`` that still exist and are still orphans, and nothing else."""
    shown = {resource.key for resource in found}
    with lock.held(state.home(config.name)):
        providers.get(config.provider).remove(config, [r for r in orphans(config) if r.key in shown])
        left = {resource.key for resource in orphans(config)}
    return Receipt(config.name, found, [resource for resource in found if resource.key in left])
