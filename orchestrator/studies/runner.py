"""Run a study from where its journal ends to its last launch."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from orchestrator import progress, state
from orchestrator.cluster import hosts
from orchestrator.config import Config
from orchestrator.errors import ConfigError, StateError
from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies import journal, machine, matrix, settings
from orchestrator.studies.journal import Journal
from orchestrator.studies.launching import Deployed, Launcher
from orchestrator.studies.model import Study
from orchestrator.studies.schedule import Planned, Schedule


@dataclass(frozen=True)
class Sitting:
    """What one process did for a study.

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
        own = sum(launch.seconds for launch in self.launches)
        return self.seconds / own - 1 if own else 0.0


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
    found = matrix.cells(study, slots(config))
    problems: dict[str, str] = {}
    for cell in found:
        try:
            settings.of_cell(config, study, cell)
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(problem, f"study {study.name}: {matrix.title(cell)}: {problem}")
    if problems:
        raise ConfigError(list(problems.values()), "correct the study's file, or exclude these cells")
    return found


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


def run(config: Config, directory: Path, deployed: Deployed, deploys: bool = True) -> Sitting:
    """Run the study of ``directory`` from where it is to its end.

    Args:
        config: Configuration of the cluster.
        directory: Directory of the study, with study.yaml.
        deployed: Returns state directory, cluster and digest of its trainer, if it has the framework of a launch.
        deploys: Whether the cluster may grow and shrink to the nodes of a cell.

    Returns:
        What was done.

    Raises:
        OrchestratorError: The cluster cannot run anything now; the same command with --resume continues.
    """
    study = journal.load(directory).measured()
    every = cells(config, study)
    with journal.opened(directory) as current:
        _require_same(current, every)
        launcher = Launcher(config, study, current, deployed, deploys)
        _require_room(launcher, every, deploys)
        machine.write(directory, launcher.state_dir, launcher.cluster)
        schedule = Schedule(study, every, current.launches, len(launcher.cluster.nodes))
        started, done = time.time(), list(_measure(launcher, schedule))
        lost = {
            matrix.title(cell): why for cell in every for key, why in schedule.given_up().items() if cell.key == key
        }
        return Sitting(done, time.time() - started, lost)


def _measure(launcher: Launcher, schedule: Schedule) -> Iterator[Launch]:
    collected = launcher.collect()
    if collected:
        progress.note(
            f"round {collected.round + 1}: {matrix.title(collected.cell)}, started before the study was ended"
        )
        _tell(collected, schedule)
        yield collected
    while planned := schedule.next():
        _announce(planned, schedule)
        launch = launcher.measure(planned)
        _tell(launch, schedule)
        yield launch


def _require_same(current: Journal, every: Sequence[Cell]) -> None:
    """Check that the launches so far are of cells of the study: nodes may have other slots meanwhile."""
    known = {cell.key for cell in every}
    foreign = [launch.cell for launch in current.launches if launch.key not in known]
    if foreign:
        raise StateError(
            f"{current.directory}: {matrix.title(foreign[0])} was launched and is no cell of {journal.STUDY}",
            "run it on a cluster with the same slots per node, or start anew with --directory",
        )


def _require_room(launcher: Launcher, every: Sequence[Cell], deploys: bool) -> None:
    """Check that the cluster has the framework of every cell, and slots for each for which it will not grow."""
    for cell in every:
        launcher.deployed(settings.of_cell(launcher.config, launcher.study, cell))
        if not (deploys and cell.nodes):
            hosts(launcher.cluster, cell.ranks)


def _announce(planned: Planned, schedule: Schedule) -> None:
    again = " (again, for the A/A pair)" if planned.contestant.again else ""
    title = matrix.title(planned.contestant.cell)
    progress.note(f"round {planned.round + 1}: {title}{again}; {remaining(schedule)}")


def _tell(launch: Launch, schedule: Schedule) -> None:
    busy = f"; others used {launch.busy:.0%} of the CPU" if launch.busy > schedule.study.busy_above else ""
    if launch.problem:
        progress.note(f"  no measurement: {launch.problem}")
        if launch.key in schedule.given_up():
            progress.note(f"  given up: {matrix.title(launch.cell)}")
    else:
        progress.note(f"  {launch.images_per_second:.4g} images/s, {launch.seconds:.1f} s{busy}")


def remaining(schedule: Schedule) -> str:
    """Return how many launches are left and which are repeated, and about how long they take."""
    left, repeats = len(schedule.left()), _repeated(schedule)
    least = "" if schedule.study.repetitions.at_least == schedule.study.repetitions.at_most else "at least "
    words = [f"{least}{left} launch{'es' * (left != 1)} left"] if left or not repeats else []
    known = [launch.seconds for launch in schedule.launches if not launch.problem]
    about = [f"about {timedelta(seconds=round(schedule.expected() * fmean(known)))}"] if known else []
    return ", ".join(words + repeats + about)


def _repeated(schedule: Schedule) -> list[str]:
    """Return what is repeated, and why."""
    repeats = schedule.repeats()
    failed = sum(launch.problem is not None for launch in repeats)
    reasons = {"other programs used the machine": len(repeats) - failed, "they failed": failed}
    return [f"repeating {n} of {len(schedule.launches)} launches: {why}" for why, n in reasons.items() if n]
