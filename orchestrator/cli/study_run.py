"""The command that runs a study, starts it on the head, or shows what it would do."""

from collections.abc import Sequence
from pathlib import Path

from orchestrator import progress, state
from orchestrator.cli import chosen_cluster, launch_options, output, study_options, study_tables
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.cli.study_options import Data, Deploys, Detached, DryRun, Resume, Rounds, Shrunk, Source, Where
from orchestrator.config import Config
from orchestrator.errors import RunFailed, command
from orchestrator.schema.studies import Cell
from orchestrator.studies import (
    detached_launches,
    journal,
    matrix,
    resumable_study,
    status,
    study_checks,
    study_files,
    study_runner,
    time_and_cost,
)
from orchestrator.studies.status import Row
from orchestrator.studies.study_definition import Study
from orchestrator.studies.study_runner import Sitting


def run(
    source: Source = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    directory: Where = None,
    shrink: Shrunk = False,
    rounds: Rounds = None,
    data: Data = None,
    deploys: Deploys = None,
    detach: Detached = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Run a study; `orchestrator study FILE` does the same. --resume continues one."""
    changes = study_options.changes(shrink, rounds, data or [])
    resumed = study_options.resumed(source, directory) if resume else None
    if deploys is None:
        deploys = resumed is None or resumable_study.read_deploys(resumed)
    cluster_name = resumable_study.read_cluster(resumed) if resumed and name is None else name
    config = chosen_cluster.load_config(config_file, cluster_name, {})
    before = resumable_study.load(resumed) if resumed else study_files.find(study_options.named(source))
    study = study_options.changed(before, changes)
    directory = resumed or directory or Path(f"{study.name}{study_options.FOLDER}")
    cells = _launchable(config, study.measured(), deploys, detach, dry_run)
    if not resume:
        study_checks.require_ratio(study.measured(), cells)
    if dry_run:
        planned = time_and_cost.plan(config, study.measured(), cells, directory, deploys)
        return output.as_json(planned) if json else study_tables.plan(planned, config.currency)
    if not resume:
        resumable_study.create(directory, study)
        resumable_study.write_cluster(directory, config.name)
        resumable_study.write_deploys(directory, deploys)
    if detach:
        return _detach(config, directory, study, deploys, json)
    _run(config, directory, study, deploys, json)


def _launchable(config: Config, study: Study, deploys: bool, detach: bool, dry_run: bool) -> list[Cell]:
    """Return the cells of a study that can start; a dry run needs no cluster, but fits the one that is deployed."""
    cells = study_checks.cells(config, study)
    if detach:
        study_checks.require_no_deploys(study, deploys)
    study_checks.require_data(study)
    record = state.read(state.for_cluster(config.name))
    if not dry_run or (record and record.cluster):
        study_checks.require_room(config, study, cells, launch_options.deployed_for_trainer, deploys)
    return cells


def _run(config: Config, directory: Path, study: Study, deploys: bool, json: bool) -> None:
    sitting = study_runner.run(config, directory, study, launch_options.deployed_for_trainer, deploys)
    study, launches = study.measured(), journal.read(directory)
    rows = status.rows(study, study_checks.cells(config, study), launches)
    if json:
        output.as_json({"directory": directory, "cells": rows, "sitting": sitting, "overhead": sitting.overhead})
    else:
        _show(directory, study, rows, sitting)
    _require_measurements(directory, rows, sitting)


def _require_measurements(directory: Path, rows: Sequence[Row], sitting: Sitting) -> None:
    """Check that no cell was given up. Raises RunFailed."""
    if sitting.given_up:
        what = "some cells were given up" if any(row.launches for row in rows) else "nothing was measured"
        problem = next(iter(sitting.given_up.values()))
        remedy = f"repair the cause; {journal.resume_command(directory)} then tries the cells again"
        raise RunFailed(f"{directory}: {what}: {problem}", remedy)


def _show(directory: Path, study: Study, rows: Sequence[Row], sitting: Sitting) -> None:
    study_tables.shared(matrix.shared_options(study))
    study_tables.results(rows)
    study_tables.given_up(sitting.given_up)
    launch_seconds = sum(launch.seconds for launch in sitting.launches)
    output.line(
        f"{len(sitting.launches)} launches in {sitting.seconds:.0f} s, {launch_seconds:.0f} s of them their own:"
        f" the study added {sitting.overhead:.1%}"
    )
    output.line(f"study: {directory}")


def _detach(config: Config, directory: Path, study: Study, deploys: bool, json: bool) -> None:
    """Start the certain launches on the head, and print the commands that follow, collect and stop them."""
    queue = study_runner.detach(config, directory, study, launch_options.deployed_for_trainer, deploys)
    if json:
        return output.as_json({"directory": directory, "queue": queue})
    output.line(str(directory))
    progress.note(
        f"queue {queue.queue} on the head makes {detached_launches.counted(queue.launches)}, also while this machine"
        f" is off: {journal.status_command(directory)} shows how far it is,"
        f" {journal.resume_command(directory)} collects them and continues the study,"
        f" {command(f'stop {queue.queue}', queue.cluster)} ends it"
    )
