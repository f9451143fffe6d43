"""Run a study from where its journal ends to its last launch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator import progress
from orchestrator.config import Config
from orchestrator.errors import StateError
from orchestrator.schema.studies import Launch
from orchestrator.studies import (
    detached_launches,
    journal,
    machine_description,
    matrix,
    progress_messages,
    resumable_study,
    resume_checks,
    study_checks,
)
from orchestrator.studies.cell_launch import Deployed, Launcher
from orchestrator.studies.detached_launches import Progress
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
        _collect_started(launcher, schedule)
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
    study_checks.require_no_deploys(study.measured(), deploys)
    detached_launches.require_none(directory)
    with _opened(config, directory, study, deployed, deploys) as (launcher, schedule):
        _collect_queued(launcher, schedule)
        launcher.collect()
        order = schedule.certain()
        if not order:
            raise StateError(f"{directory}: no launch is left", f"{journal.report_command(directory)} reports it")
        return detached_launches.enqueue(launcher, order)


@contextmanager
def _opened(
    config: Config, directory: Path, study: Study, deployed: Deployed, deploys: bool
) -> Iterator[tuple[Launcher, Schedule]]:
    """Open a study for this process alone; the cells that it gave up before are tried again."""
    measured = study.measured()
    every = study_checks.cells(config, measured)
    with journal.opened(directory) as current:
        resume_checks.require_same_cells(current, every)
        resume_checks.require_same_form(current, study)
        resume_checks.require_same_cluster(current, config.name)
        launcher = Launcher(config, measured, current, deployed, deploys)
        machine = machine_description.ask(launcher.state_dir, launcher.cluster, resized=bool(measured.nodes))
        resume_checks.require_same_machine(current, config.name, machine)
        resumable_study.save(directory, study)
        resumable_study.write_cluster(directory, config.name)
        resumable_study.write_deploys(directory, deploys)
        machine_description.write(directory, machine)
        size, done = len(launcher.cluster.nodes), len(current.launches)
        yield launcher, Schedule(measured, every, current.launches, size, resumed=done)


def _collect_queued(launcher: Launcher, schedule: Schedule) -> None:
    for launch in detached_launches.collect(launcher):
        progress.note(f"round {launch.round + 1}: {matrix.title(launch.cell, schedule.study)}, launched by the head")
        progress_messages.tell(launch, schedule)


def _collect_started(launcher: Launcher, schedule: Schedule) -> None:
    """Finish the launch that was under way when the study ended: its time is not time of this process."""
    if collected := launcher.collect():
        title = matrix.title(collected.cell, schedule.study)
        progress.note(f"round {collected.round + 1}: {title}, started before the study was ended")
        progress_messages.tell(collected, schedule)


def _measure(launcher: Launcher, schedule: Schedule) -> Iterator[Launch]:
    while planned := schedule.next():
        progress_messages.announce(planned, schedule)
        launch = launcher.measure(planned)
        progress_messages.tell(launch, schedule)
        yield launch
