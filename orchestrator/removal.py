"""teardown: everything that was made is removed, whatever part of it is there, and a receipt says so."""

from contextlib import suppress
from dataclasses import dataclass

from orchestrator import ansible, lock, progress, providers, saving, state
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError, command
from orchestrator.providers import Resource
from orchestrator.state import Home, Record


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


def teardown(name: str, wanted: Config | None = None, keep_metrics: bool = True, discard_runs: bool = False) -> Receipt:
    """Remove a cluster, whatever part of it is there; runs and their results stay. Needs only the state directory.

    Args:
        name: The cluster.
        wanted: What cluster.yaml asks for: if nothing is deployed, what its provider has under that name is mentioned.
        keep_metrics: Put what Prometheus has of each run beside its results.
        discard_runs: Go on if runs cannot be fetched.

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
        if made:  # otherwise nothing is left that could hold a run
            _save_runs(place, record, discard_runs)
        if keep_metrics:
            saving.save_series(place, record)
        with progress.step("Destroying") as step:
            provider.destroy(place, record, step.detail)
        left = provider.survey(record)
        if not left:
            ansible.forget(place)
            state.forget(place)
    return Receipt(name, made, left)


def _save_runs(place: Home, record: Record, discard: bool) -> None:
    if not discard:
        heals = f"{command('deploy', place.name)} heals the head"
        return saving.require_fetched(place, record, "teardown would remove the only copy", heals, stop=True)
    lost = saving.fetch(place, record, stop=True, seconds=0.0)
    saving.give_up(place, lost)
    for run, reason in lost.items():
        progress.note(f"run {run} is discarded: {reason}")


def _mention_orphans(wanted: Config) -> None:
    """Nothing is known here, but something may be there all the same."""
    with suppress(OrchestratorError):
        found = orphans(wanted)
        if found:
            listed, removes = ", ".join(map(str, found)), command("teardown --orphans", wanted.name)
            progress.note(f"not of this state directory, and left alone: {listed}; {removes} removes them")


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
