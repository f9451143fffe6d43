"""Derive the configuration with which a training run is resumed, and refuse what cannot be."""

import math
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator import progress
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError, ContractError, StateError, command
from orchestrator.runs import choose_checkpoint, collected_files, control
from orchestrator.runs.datasets import FoundDataset
from orchestrator.runs.run_record import QUEUE, SCRIPT, Run
from orchestrator.schema import CheckpointEntry, Checkpoints, TrainConfig, top1_of
from orchestrator.ssh import Session, parsed
from orchestrator.state import StateDir

# Kinds of runs without checkpoints, and the command that starts each of them.
WITHOUT_CHECKPOINTS = {
    SCRIPT: "run",
    "check": "check",
    "prepare": "data prepare",
    "stage": "data stage",
    QUEUE: "study --detach",
}
MORE = "pass more --epochs or --steps than it has made, or a higher --until; --save-model alone writes its network"


def require_training(old: Run, cluster: str) -> None:
    """Raise StateError if ``old`` is not a training run, which alone has checkpoints."""
    kind = old.kind.partition("-")[0]
    if kind in WITHOUT_CHECKPOINTS:
        remedy = f"{command(WITHOUT_CHECKPOINTS[kind], cluster)} starts a new one"
        raise StateError(f"run {old.id} is a {kind}: only runs of `train` can be resumed", remedy)


def ranks(old: Run, requested: int | None, cluster: Cluster) -> int:
    """Return the number of ranks to continue with.

    Args:
        old: Run to continue.
        requested: Number of ranks the user asked for; None for as many as ``old`` had.
        cluster: Cluster to continue on.

    Returns:
        The number of ranks.

    Raises:
        StateError: The cluster has fewer slots than ``old`` had ranks, and no number was asked for.
    """
    if requested is None and old.np > cluster.slots:
        remedy = f"{command('deploy', cluster.name)} with more nodes, or --np for fewer ranks from the end of an epoch"
        raise StateError(f"run {old.id} had {old.np} ranks, and the cluster has {cluster.slots} slots", remedy)
    return requested or old.np


def read(state_dir: StateDir, head: Session, old: Run) -> tuple[TrainConfig, Checkpoints]:
    """Read the settings and checkpoints of ``old``; upload collected checkpoints if the cluster has none of them.

    Args:
        state_dir: State directory of the cluster.
        head: Session on the head.
        old: Training run to continue.

    Returns:
        The settings and the index of checkpoints.

    Raises:
        StateError: The run is still active, or has no checkpoint.
        ContractError: A file on the head is not valid.
    """
    if control.get_state(state_dir, head, old).state == "running":
        raise StateError(f"run {old.id} is still running", f"{command(f'stop {old.id}', state_dir.name)} stops it")
    index = _present(head, old)
    if not index.entries:
        index = _brought_back(state_dir, head, old)
    path = f"{old.directory}/config.json"
    settings = head.must("read the run's settings", ["cat", path])
    starts = f"restore it from a copy, or {command('train', state_dir.name)} starts a new run"
    return parsed(TrainConfig, settings, head, path, starts), index


def _brought_back(state_dir: StateDir, head: Session, old: Run) -> Checkpoints:
    """Upload the collected checkpoints of a run of a torn-down cluster, and return their index."""
    if collected_files.is_resumable(state_dir, old):
        with progress.step(f"Placing the checkpoint of {old.id} on the shared storage"):
            collected_files.upload_checkpoint(state_dir, head, old)
    present = _present(head, old)
    if not present.entries:
        raise StateError(f"run {old.id} has no checkpoint", _other_start(head, old, state_dir.name))
    return present


def _present(head: Session, old: Run) -> Checkpoints:
    """Return the index of the checkpoints of ``old`` that are on the cluster: a user may have removed a damaged one."""
    index = collected_files.checkpoints_on_cluster(head, old) or Checkpoints()
    present = head.run(["ls", f"{old.directory}/checkpoints"]).output.splitlines()
    return index.model_copy(update={"entries": [each for each in index.entries if each.name in present]})


def _other_start(head: Session, old: Run, cluster: str) -> str:
    """Return the command to use in place of resuming ``old``, which ended before it had a checkpoint."""
    settings = head.run(["cat", f"{old.directory}/config.json"])
    with suppress(ContractError):
        resumed = parsed(TrainConfig, settings.output, head, "config.json").resume
        if resumed:
            earlier = Path(resumed).parents[1].name
            return f"{command(f'train --resume {earlier}', cluster)} continues the run that it was to continue"
    return f"{command('train', cluster)} with its options starts a new one"


def require_same(old: Run, settings: TrainConfig, data: FoundDataset, cluster: str) -> None:
    """Check that the local data set is the one that ``old`` trained on.

    Args:
        old: Training run to continue.
        settings: Settings of ``old``.
        data: Data set on this machine.
        cluster: Name of the cluster.

    Raises:
        StateError: It is another data set, or the shards that ``old`` trained on are gone.
    """
    if settings.data not in (data.remote, data.records):
        what = f"run {old.id} trained on {settings.data}, which the cluster no longer has"
        again = command(f"train --resume {old.id} --data DIR", cluster)
        remedy = f"{again} names the directory of that data set, whose files have the same names, sizes and times"
        raise StateError(f"{what}, and {data.directory} holds another", remedy)
    if settings.data != data.remote:
        again = command(f"data prepare {data.dataset} --data {shlex.quote(str(data.directory))}", cluster)
        raise StateError(
            f"run {old.id} trained on shards which the cluster no longer has", f"{again} writes them again"
        )


def resumed_config(
    settings: TrainConfig, index: Checkpoints, old: Run, np: int, limits: Mapping[str, Any], cluster: str
) -> TrainConfig:
    """Derive the configuration of a run that continues ``old``; the caller sets its ``run``.

    Everything stays as it was except ``limits``. New epochs discard an earlier number of steps; new steps raise the
    number of epochs if they need more. Both discard an accuracy that ``old`` has reached. With ``save_model`` alone, a
    run that has nothing left to train only writes its network.

    Args:
        settings: Settings of ``old``.
        index: Checkpoints of ``old``.
        old: Training run to continue.
        np: Number of ranks to continue with.
        limits: As for ``resumed_training.resume``; may be empty.
        cluster: Name of the cluster.

    Returns:
        The configuration, with the checkpoint to resume from.

    Raises:
        StateError: No checkpoint can be continued with ``np`` ranks.
        ConfigError: Nothing is left to train.
    """
    point = choose_checkpoint.newest(index, old, np, cluster)
    changed: dict[str, Any] = {}
    if "epochs" in limits:
        changed = {"steps": None}
    elif "steps" in limits:
        changed = {"epochs": max(settings.epochs, _epochs(index, np, limits["steps"]))}
        _require_known_epochs(settings, index, point, old, limits["steps"])
    if {"epochs", "steps"} & limits.keys() and _reached(settings.until, index):
        changed["until"] = None
    again = settings.model_copy(update={**changed, **limits})
    problem = _nothing_left(again, index, point, old, np)
    if problem and limits != {"save_model": True}:
        raise ConfigError([problem], MORE)
    source = f"{old.directory}/checkpoints/{point.name}"
    return again.model_copy(update={"resume": source, "restarts": settings.restarts + 1})


def _reached(goal: str | None, index: Checkpoints) -> bool:
    """Tell whether a checkpoint has the accuracy ``goal``; the index has the best of the run."""
    return goal is not None and any(entry.top1 is not None and entry.top1 >= top1_of(goal) for entry in index.entries)


def _epochs(index: Checkpoints, np: int, steps: int) -> int:
    """Return an upper bound of the epochs that ``steps`` of ``np`` ranks need, by complete epochs; 0 without any."""
    whole = [checkpoint for checkpoint in index.entries if checkpoint.whole and _steps(checkpoint, np)]
    return min((math.ceil(steps * checkpoint.epoch / _steps(checkpoint, np)) for checkpoint in whole), default=0)


def _require_known_epochs(
    settings: TrainConfig, index: Checkpoints, point: CheckpointEntry, old: Run, steps: int
) -> None:
    """Raise ConfigError if the epochs may end before ``steps``, because the run has made none that tells its length."""
    known = max(settings.steps or 0, point.step * settings.epochs // point.epoch)
    if steps > known and not any(entry.whole for entry in index.entries):
        problem = f"run {old.id} has not made a whole epoch: how many epochs these steps need is not known"
        raise ConfigError([f"train.steps: {steps}: {problem}"], "add --epochs, with as many epochs as the steps need")


def _nothing_left(settings: TrainConfig, index: Checkpoints, point: CheckpointEntry, old: Run, np: int) -> str:
    """Return the limit that ``old`` has reached; empty if something is left to train or to evaluate."""
    if _reached(settings.until, index):
        return f"train.until: {settings.until}: run {old.id} has reached it"
    if point.whole and point.top1 is None:  # its evaluation is left to do
        return ""
    steps = _steps(point, np)
    if settings.steps is not None and steps >= settings.steps:
        of = f" of {np} ranks" if np != point.world else ""
        return f"train.steps: {settings.steps}: run {old.id} has made {steps}{of}"
    made = point.epoch if point.whole else point.epoch - 1
    return f"train.epochs: {settings.epochs}: run {old.id} has made {made}" if made >= settings.epochs else ""


def _steps(point: CheckpointEntry, np: int) -> int:
    """Return a lower bound of the run's steps in steps of ``np`` ranks: the images of an epoch are not known here."""
    if np == point.world:
        return point.step
    return point.epoch * (point.step // point.epoch * point.world // np)
