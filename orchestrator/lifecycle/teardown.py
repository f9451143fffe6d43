"""Teardown: remove all resources of a cluster, whatever part of it exists, and return a receipt."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orchestrator import progress, providers, state, terraform
from orchestrator.ansible import shared_ssh_connections
from orchestrator.config import Config
from orchestrator.errors import OrchestratorError, StateError, command
from orchestrator.lifecycle import fetch_before_removal, save_series
from orchestrator.lifecycle.receipt import Receipt
from orchestrator.providers import Resource
from orchestrator.state import Record, StateDir, cluster_lock


def teardown(name: str, config: Config | None = None, keep_metrics: bool = True, discard_runs: bool = False) -> Receipt:
    """Remove a cluster, whatever part of it exists; runs and their results stay. Only the state directory is needed.

    Args:
        name: The cluster.
        config: The configuration of cluster.yaml; if nothing is deployed, orphans that its provider has are mentioned.
        keep_metrics: Save the Prometheus series of each run with its results.
        discard_runs: Continue if runs cannot be fetched.

    Returns:
        The resources found, and those left.

    Raises:
        StateError: Runs cannot be fetched; nothing was removed.
    """
    state_dir = state.for_cluster(name)
    if state.read(state_dir) is None:
        progress.note(f"cluster {name!r} is not deployed from this state directory: {state_dir.path.parent}")
        progress.note(state.deployed_clusters())
        _mention_orphans(config or Config(name=name))
        return Receipt(name, [], [])
    with cluster_lock.held(state_dir):
        record = state.read(state_dir)
        if record is None:
            return Receipt(name, [], [])
        provider = providers.of(record)
        with _naming_the_last_resort(name):
            before = provider.list_resources(record)
        if before:  # without resources no run is left to save
            _save_runs(state_dir, record, discard_runs)
        if keep_metrics:
            save_series.save(state_dir, record)
        with progress.step("Destroying") as step:
            provider.destroy(state_dir, record, step.detail)
        remaining = provider.list_resources(record)
        if not remaining:
            shared_ssh_connections.forget(state_dir)
            state.forget(state_dir)
    return Receipt(name, before, remaining)


@contextmanager
def _naming_the_last_resort(name: str) -> Iterator[None]:
    """Add to the hint of an error how to forget a cluster whose provider can never be asked again."""
    try:
        yield
    except OrchestratorError as error:
        if "--forget" not in error.hint:
            forgets = f"if the cluster is gone with its project, cloud or engine: {command('teardown --forget', name)}"
            error.hint = "\n".join(filter(None, [error.hint, forgets]))
        raise


def why_unknown(name: str) -> str:
    """Return why the provider of a cluster cannot tell which of its resources exist.

    Raises:
        StateError: The cluster is not deployed, or resources of it exist.
    """
    record = state.read(state.for_cluster(name))
    if record is None:
        raise StateError(f"cluster {name!r} is not deployed", state.deployed_clusters())
    try:
        resources = providers.of(record).list_resources(record)
    except OrchestratorError as error:
        return error.message
    silent = [] if terraform.has_root(record.config["provider"]) else [r for r in resources if not r.usable]
    if present := [resource for resource in resources if resource not in silent]:
        listed, removes = ", ".join(map(str, present)), command("teardown", name)
        raise StateError(f"cluster {name!r} is not gone: its provider has {listed}", f"{removes} removes them")
    return f"no answer from {', '.join(map(str, silent))}" if silent else "its provider has no resources of it"


def forget(name: str) -> None:
    """Forget a cluster without asking its provider. Runs on this machine stay, those that only it had are given up."""
    state_dir = state.for_cluster(name)
    with cluster_lock.held(state_dir):
        lost = fetch_before_removal.unfetched(state_dir)
        fetch_before_removal.mark_lost(state_dir, lost)
        shared_ssh_connections.forget(state_dir)
        state.forget(state_dir)
    for run in lost:
        progress.note(f"run {run} is discarded: it was not copied to this machine")
    removes = command("teardown --orphans", name)
    progress.note(f"cluster {name!r} is forgotten; should resources of it exist after all, {removes} removes them")


def _save_runs(state_dir: StateDir, record: Record, discard: bool) -> None:
    if not discard:
        heals = f"{command('deploy', state_dir.name)} repairs the head"
        return fetch_before_removal.require_fetched(
            state_dir, record, "teardown would remove the only copy", heals, stop=True
        )
    lost = fetch_before_removal.fetch(state_dir, record, stop=True, seconds=0.0)
    fetch_before_removal.mark_lost(state_dir, lost)
    for run, reason in lost.items():
        progress.note(f"run {run} is discarded: {reason}")


def _mention_orphans(config: Config) -> None:
    """Print the orphans of a cluster that this state directory does not know."""
    with suppress(OrchestratorError):
        resources = orphans(config)
        if resources:
            listed, removes = ", ".join(map(str, resources)), command("teardown --orphans", config.name)
            progress.note(f"not recorded in this state directory, and not removed: {listed}; {removes} removes them")


def orphans(config: Config) -> list[Resource]:
    """Return the resources that carry the cluster's label but are unknown to this state directory."""
    provider, record = providers.get(config.provider), state.read(state.for_cluster(config.name))
    recorded = {resource.key for resource in providers.of(record).list_resources(record)} if record else set()
    return [resource for resource in provider.unowned_resources(config) if resource.key not in recorded]


def remove_orphans(config: Config, resources: list[Resource]) -> Receipt:
    """Remove those of ``resources`` that still exist and are still orphans, and nothing else."""
    shown = {resource.key for resource in resources}
    with cluster_lock.held(state.for_cluster(config.name)):
        providers.get(config.provider).remove(config, [r for r in orphans(config) if r.key in shown])
        remaining = {resource.key for resource in orphans(config)}
    return Receipt(config.name, resources, [resource for resource in resources if resource.key in remaining])
