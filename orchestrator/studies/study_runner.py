"""Run a study from where its journal ends to its last launch."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator import progress, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.config.paths import expanded
from orchestrator.errors import ConfigError, StateError, command
from orchestrator.lifecycle import plan
from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies import detached_launches, journal, machine_facts, matrix, progress_messages, settings
from orchestrator.studies.cell_launch import Deployed, Launcher, resized
from orchestrator.studies.detached_launches import Progress
from orchestrator.studies.journal import Journal
from orchestrator.studies.launch_schedule import Schedule
from orchestrator.studies.study_definition import Study


@dataclass(frozen=True)
class Sitting:
    """Work of one process for a study.

    Attributes:
        launches: The launches that it made.
        seconds: Its wall time from the first launch to the end of the last.
        given_up: Problems of cells that are not launched any more, by the cell in words.
    """

    launches: list[Launch]
    seconds: float
    given_up: dict[str, str]

    @property
    def overhead(self) -> float:
        """Return the time that the study added to its launches, as a share of theirs."""
        launch_seconds = sum(launch.seconds for launch in self.launches)
        return self.seconds / launch_seconds - 1 if launch_seconds else 0.0


def cells(config: Config, study: Study) -> list[Cell]:
    """Return the cells of a study, each of which `orchestrator train` would accept.

    Args:
        config: Configuration of the cluster.
        study: The study as it is measured.

    Returns:
        The cells in the order of the file.

    Raises:
        ConfigError: Some cells cannot be launched. It holds every problem.
    """
    every = matrix.cells(study, slots(config))
    problems: dict[str, str] = {}
    for cell in every:
        try:
            settings.of_cell(config, study, cell)
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(problem, f"study {study.name}: {matrix.title(cell, study)}: {problem}")
    if problems:
        raise ConfigError(list(problems.values()), "correct the study's file, or exclude these cells")
    return every


def slots(config: Config) -> int:
    """Return the ranks per node: of the cluster, or that it will have."""
    record = state.read(state.for_cluster(config.name))
    if record and record.cluster:
        return min(node.slots for node in record.cluster.rank_nodes.values())
    return config.slots or 1


def nodes(config: Config) -> int:
    """Return the number of nodes: of the cluster, or that it will have."""
    record = state.read(state.for_cluster(config.name))
    return len(record.cluster.nodes) if record and record.cluster else config.nodes


def require_data(study: Study) -> None:
    """Check that the directories of the study's data sets exist. Raises ConfigError."""
    used = {name: study.data[name] for name in study.datasets if name in study.data}
    missing = {name: path for name, path in used.items() if not expanded(f"data.{name}", path).is_dir()}
    if missing:
        problems = [f"data.{name}: {path}: no such directory" for name, path in missing.items()]
        raise ConfigError(problems, "correct the path, or name the directory with --data DATASET=DIR")


def require_room(config: Config, study: Study, every: Sequence[Cell], deployed: Deployed, deploys: bool) -> None:
    """Check that the cluster can launch every cell, as far as that is known before the first launch.

    Args:
        config: Configuration of the cluster.
        study: The study as it is measured.
        every: Its cells.
        deployed: As of :func:`run`.
        deploys: Whether the cluster may grow and shrink to the nodes of a cell.

    Raises:
        ConfigError: It lacks a framework, or slots for a cell for which it will not grow.
        PreflightError: The provider cannot make as many nodes as the largest cell needs.
        StateError: It is not deployed.
    """
    record, cluster = state.deployed(state.for_cluster(config.name))
    for cell in every:
        deployed(settings.of_cell(config, study, cell))
    if study.nodes and deploys:
        largest = max(cell.nodes or 0 for cell in every)
        if largest > len(cluster.nodes):
            plan.preflight(resized(record, largest))
    else:
        _require_slots(config, study, every, cluster)


def _require_slots(config: Config, study: Study, every: Sequence[Cell], cluster: Cluster) -> None:
    largest = max(every, key=lambda cell: cell.ranks)
    if largest.ranks > cluster.slots:
        needed = math.ceil(largest.ranks * len(cluster.rank_nodes) / cluster.slots)
        raise ConfigError(
            [f"study {study.name}: {matrix.title(largest, study)}: cluster {config.name!r} has {cluster.slots} slots"],
            f"leave the cell out, or make room: {command(f'deploy --nodes {needed}', config.name)}",
        )


def run(config: Config, directory: Path, study: Study, deployed: Deployed, deploys: bool = True) -> Sitting:
    """Run the study of ``directory`` from where it is to its end.

    Args:
        config: Configuration of the cluster.
        directory: Directory of the study.
        study: The study, which becomes the content of study.yaml if its launches so far are of its cells.
        deployed: Returns state directory, cluster and digest of its trainer, if it has the framework of a launch.
        deploys: Whether the cluster may grow and shrink to the nodes of a cell.

    Returns:
        What was done.

    Raises:
        OrchestratorError: The cluster cannot run anything now; the same command with --resume continues.
    """
    with _opened(config, directory, study, deployed, deploys) as (launcher, schedule):
        _collect_queued(launcher, schedule)
        started, done = time.time(), list(_measure(launcher, schedule))
        return Sitting(done, time.time() - started, schedule.problems())


def detach(config: Config, directory: Path, study: Study, deployed: Deployed, deploys: bool = True) -> Progress:
    """Let the head make the launches of the study of ``directory`` that are certain, one after another.

    Args:
        config: Configuration of the cluster.
        directory: Directory of the study.
        study: As of :func:`run`.
        deployed: Returns state directory, cluster and digest of its trainer, if it has the framework of a launch.
        deploys: Whether the cluster may grow and shrink to the nodes of a cell.

    Returns:
        The queue of launches.

    Raises:
        ConfigError: The study needs deploys, which the head cannot do.
        StateError: The head makes launches of the study already, or none is left.
        NodesFailed: The cluster cannot run anything now.
    """
    require_no_deploys(study.measured(), deploys)
    detached_launches.require_none(directory)
    with _opened(config, directory, study, deployed, deploys) as (launcher, schedule):
        _collect_queued(launcher, schedule)
        launcher.collect()
        order = schedule.certain()
        if not order:
            raise StateError(f"{directory}: no launch is left", f"`orchestrator study report {directory}` reports it")
        return detached_launches.enqueue(launcher, order)


def require_no_deploys(study: Study, deploys: bool) -> None:
    """Check that no launch of a study needs a deploy. Raises ConfigError."""
    if study.nodes and deploys:
        raise ConfigError(
            [f"study {study.name}: nodes: --detach: the head cannot change the number of nodes"],
            "run it without --detach on a machine that stays on, or with --no-deploy on the nodes that are there",
        )


@contextmanager
def _opened(
    config: Config, directory: Path, study: Study, deployed: Deployed, deploys: bool
) -> Iterator[tuple[Launcher, Schedule]]:
    """Open a study for this process alone; the cells that it gave up before are tried again."""
    measured = study.measured()
    every = cells(config, measured)
    with journal.opened(directory) as current:
        _require_same(current, every)
        journal.save(directory, study)
        journal.write_cluster(directory, config.name)
        launcher = Launcher(config, measured, current, deployed, deploys)
        machine_facts.write(directory, launcher.state_dir, launcher.cluster)
        size, done = len(launcher.cluster.nodes), len(current.launches)
        yield launcher, Schedule(measured, every, current.launches, size, resumed=done)


def _collect_queued(launcher: Launcher, schedule: Schedule) -> None:
    for launch in detached_launches.collect(launcher):
        progress.note(f"round {launch.round + 1}: {matrix.title(launch.cell, schedule.study)}, launched by the head")
        progress_messages.tell(launch, schedule)


def _measure(launcher: Launcher, schedule: Schedule) -> Iterator[Launch]:
    collected = launcher.collect()
    if collected:
        title = matrix.title(collected.cell, schedule.study)
        progress.note(f"round {collected.round + 1}: {title}, started before the study was ended")
        progress_messages.tell(collected, schedule)
        yield collected
    while planned := schedule.next():
        progress_messages.announce(planned, schedule)
        launch = launcher.measure(planned)
        progress_messages.tell(launch, schedule)
        yield launch


def _require_same(current: Journal, every: Sequence[Cell]) -> None:
    """Check that all launches so far, also those under way, belong to cells of the study.

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
