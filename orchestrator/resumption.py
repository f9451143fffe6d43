"""Which checkpoint a training run can go on from, and with which configuration."""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from orchestrator import progress, records, runs
from orchestrator.cluster import Cluster
from orchestrator.datasets import Found
from orchestrator.errors import ConfigError, ContractError, StateError, command
from orchestrator.launch import Run
from orchestrator.schema import Checkpoints, Kept, TrainConfig
from orchestrator.ssh import Session
from orchestrator.state import Home

# Kinds of runs that are not our trainer, and the command that starts each of them.
WITHOUT = {"script": "run", "check": "check", "prepare": "data prepare", "stage": "data stage"}
MORE = "--epochs or --steps asks for more than it has made"


def require_training(old: Run, cluster: str) -> None:
    """Raises StateError where ``old`` is not a run that can have checkpoints."""
    kind = old.kind.partition("-")[0]
    if kind in WITHOUT:
        remedy = f"{command(WITHOUT[kind], cluster)} starts it anew"
        raise StateError(f"run {old.id} is a {kind}: only what `train` started can be resumed", remedy)


def ranks(old: Run, asked: int | None, cluster: Cluster) -> int:
    """How many to go on with: as many as are ``asked`` for, or as there were.

    Raises StateError where the cluster has become too small for these.
    """
    if asked is None and old.np > cluster.slots:
        remedy = f"{command('deploy', cluster.name)} with more nodes, or --np for fewer ranks from the end of an epoch"
        raise StateError(f"run {old.id} had {old.np} ranks, and the cluster has {cluster.slots} slots", remedy)
    return asked or old.np


def read(place: Home, head: Session, old: Run) -> tuple[TrainConfig, Checkpoints]:
    """What ``old`` trained with, and its checkpoints; those that were collected go to a cluster that has none of it.

    Raises StateError where it goes on, or has none.
    """
    if runs.look(place, head, old).state == "running":
        raise StateError(f"run {old.id} is still going on", f"{command(f'stop {old.id}', place.name)} stops it")
    try:
        index = records.checkpoints_there(head, old) or _brought_back(place, head, old)
        settings = head.must("read the run's settings", ["cat", f"{old.directory}/config.json"])
        return TrainConfig.model_validate_json(settings), index
    except ValidationError as error:
        raise ContractError(f"run {old.id}: its files have another shape: {error}") from error


def _brought_back(place: Home, head: Session, old: Run) -> Checkpoints:
    """The checkpoints of another cluster, one that was torn down."""
    if records.is_resumable(place, old):
        with progress.step(f"Placing the checkpoint of {old.id} on the shared storage"):
            records.give_back(place, head, old)
    found = records.checkpoints_there(head, old)
    if not found or not found.kept:
        raise StateError(
            f"run {old.id} has no checkpoint", f"{command('train', place.name)} with its options starts it anew"
        )
    return found


def require_same(old: Run, settings: TrainConfig, found: Found, cluster: str) -> None:
    """Raises StateError where the data set that was ``found`` here is not the one that ``old`` trained on."""
    if settings.data not in (found.remote, found.records):
        what = f"run {old.id} trained on {settings.data}, which the cluster has no more"
        again = command(f"train --resume {old.id} --data DIR", cluster)
        raise StateError(f"{what}, and {found.directory} holds another", f"{again} names the directory it came from")
    if settings.data != found.remote:
        again = command(f"data prepare {found.dataset} --data {found.directory}", cluster)
        raise StateError(f"run {old.id} trained on shards which the cluster has no more", f"{again} makes them again")


def continued(
    settings: TrainConfig, index: Checkpoints, old: Run, np: int, limits: Mapping[str, Any], cluster: str
) -> TrainConfig:
    """The configuration of a run on ``np`` ranks that continues ``old``; its own ``run`` is for the caller to set.

    Everything is as it was, but for ``limits``. New epochs put aside a number of steps that was asked for before, and
    there are as many as new steps need.
    """
    point = choose(index, old, np, cluster)
    changed: dict[str, Any] = {}
    if "epochs" in limits:
        changed = {"steps": None}
    elif "steps" in limits:
        changed = {"epochs": max(settings.epochs, _epochs(index, np, limits["steps"]))}
    again = settings.model_copy(update={**changed, **limits})
    _require_more(again, point, old, np)
    source = f"{old.directory}/checkpoints/{point.name}"
    return again.model_copy(update={"resume": source, "restarts": settings.restarts + 1})


def choose(index: Checkpoints, old: Run, np: int, cluster: str) -> Kept:
    """The newest checkpoint that ``np`` ranks can go on from. Raises StateError where there is none."""
    newest = index.kept[-1]
    if newest.world == np:
        return newest
    whole = [kept for kept in index.kept if kept.whole]
    if not whole:
        again = command(f"train --resume {old.id} --np {newest.world}", cluster)
        what = f"run {old.id} stopped within its first epoch, from where {np} ranks cannot go on: it had {newest.world}"
        raise StateError(what, f"{again}, on as many slots")
    was = f"{np} ranks instead of {whole[-1].world}"
    progress.note(f"{was}: goes on from the end of epoch {whole[-1].epoch}, and not bit for bit as it would have")
    return whole[-1]


def _epochs(index: Checkpoints, np: int, steps: int) -> int:
    """How many epochs so many ``steps`` of ``np`` ranks need at most, by those that were trained to an end; or 0."""
    whole = [kept for kept in index.kept if kept.whole and _steps(kept, np)]
    return min((math.ceil(steps * kept.epoch / _steps(kept, np)) for kept in whole), default=0)


def _require_more(settings: TrainConfig, point: Kept, old: Run, np: int) -> None:
    """Raises ConfigError where there is nothing left to do."""
    made = _steps(point, np)
    if point.whole and point.top1 is None:  # its evaluation is
        return
    if settings.steps is not None and made >= settings.steps:
        of = f" of {np} ranks" if np != point.world else ""
        raise ConfigError([f"train.steps: {settings.steps}: run {old.id} has made {made}{of}"], MORE)
    if point.whole and point.top1 is not None and point.epoch >= settings.epochs:
        raise ConfigError([f"train.epochs: {settings.epochs}: run {old.id} has made {point.epoch}"], MORE)


def _steps(point: Kept, np: int) -> int:
    """How many steps of ``np`` ranks the run has made, or fewer: how many images an epoch has is not known here."""
    if np == point.world:
        return point.step
    return point.epoch * (point.step // point.epoch * point.world // np)
