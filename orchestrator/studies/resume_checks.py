"""Checks of a study that is resumed: its launches so far must belong to its cells, machines and cluster of now."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from orchestrator import state
from orchestrator.errors import StateError, command
from orchestrator.runs import store
from orchestrator.schema.studies import Cell
from orchestrator.studies import journal, machine_description, matrix, resumable_study, round_ratios
from orchestrator.studies.journal import Journal
from orchestrator.studies.study_definition import Study


def require_same_cells(current: Journal, every: Sequence[Cell]) -> None:
    """Check that all launches so far, also those under way, belong to cells of the study. Raises StateError.

    The nodes' slots may have changed since, and --shrink changes the cells.
    """
    under_way = [*([current.started] if current.started else []), *(current.queued.launches if current.queued else [])]
    launched = [*(launch.cell for launch in current.launches), *(started.cell for started in under_way)]
    keys = {cell.key for cell in every}
    foreign = [cell for cell in launched if cell.key not in keys]
    if foreign:
        raise StateError(
            f"{current.directory}: {matrix.title(foreign[0])} was launched and is no cell of the study now",
            "resume it without --shrink, on nodes with as many slots as before, or start a new one with --directory",
        )


def require_same_form(current: Journal, study: Study) -> None:
    """Check that a study with launches is not shrunk now: cells may be the same, with other images and steps.

    Args:
        current: Journal of the study.
        study: The study as it is to continue, before ``shrink`` is applied.

    Raises:
        StateError: It has launches that were not shrunk.
    """
    launched = current.launches or current.started or current.queued
    if study.shrunk and launched and not resumable_study.load(current.directory).shrunk:
        raise StateError(
            f"{current.directory}: --shrink: the launches so far were not shrunk, and ratios would compare both",
            "resume it without --shrink, or start a new one with --shrink and --directory",
        )


def require_same_machine(current: Journal, cluster: str, machine: Mapping[str, str]) -> None:
    """Check that the launches so far ran on machines like those of now: ratios pair launches of all of them.

    Args:
        current: Journal of the study. Launches without a measurement do not count.
        cluster: Name of the cluster.
        machine: Description of its machines.

    Raises:
        StateError: The machines differ in what decides their speed.
    """
    differences = machine_description.differences(machine_description.read(current.directory), machine)
    if differences and round_ratios.counting(current.launches):
        again = f"study {shlex.quote(str(current.directory / journal.STUDY))} --directory NEW"
        raise StateError(
            f"{current.directory}: its launches ran on other machines: {'; '.join(differences)}",
            f"resume it on machines like those, or measure everything on these: {command(again, cluster)}",
        )


def require_same_cluster(current: Journal, cluster: str) -> None:
    """Check that no launch under way is on another cluster than the one on which the study continues.

    It could not be collected there. If the other cluster is not deployed any more, the study makes the launch again.

    Raises:
        StateError: The other cluster has such a launch.
    """
    for file, run, other in _under_way(current):
        if other != cluster and state.read(state.for_cluster(other)):
            directory = shlex.quote(str(current.directory))
            raise StateError(
                f"{current.directory}: {run} on cluster {other!r} is not collected,"
                f" and cluster {cluster!r} cannot collect it",
                f"`orchestrator study {directory} --resume --cluster {other}` collects it and continues there; to give"
                f" it up, {command(f'stop {run}', other)} ends it, then remove {current.directory / file}",
            )


def _under_way(current: Journal) -> Iterator[tuple[str, str, str]]:
    """Yield the file, run or queue, and cluster of the launches that are not collected."""
    if current.queued:
        yield journal.QUEUED, current.queued.run, current.queued.cluster
    cluster = resumable_study.read_cluster(current.directory)
    if current.started and cluster and _is_recorded(cluster, current.started.run):
        yield journal.STARTED, current.started.run, cluster


def _is_recorded(cluster: str, run: str) -> bool:
    return run in {record.id for record in store.list_runs(state.for_cluster(cluster))}
