"""Which checkpoint a training run can go on from, and with which configuration."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from orchestrator import progress, records, runs
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError, ContractError, StateError, command
from orchestrator.launch import Run
from orchestrator.schema import Checkpoints, Kept, TrainConfig
from orchestrator.ssh import Session
from orchestrator.state import Home

WITHOUT = ("script", "check")  # kinds of runs that are not our trainer
MORE = "--epochs or --steps asks for more than it has made"


def require_training(old: Run, cluster: str) -> None:
    """Raises StateError where ``old`` is not a run that can have checkpoints."""
    if old.kind in WITHOUT:
        remedy = f"{command('run' if old.kind == 'script' else 'check', cluster)} starts it anew"
        raise StateError(f"run {old.id} is a {old.kind}: only what `train` started can be resumed", remedy)


def ranks(old: Run, asked: int | None, cluster: Cluster) -> int:
    """How many to go on with: as many as are ``asked`` for, or as there were.

    Raises StateError where the cluster has become too small for these.
    """
    if asked is None and old.np > cluster.slots:
        remedy = f"{command('deploy', cluster.name)} with more nodes, or --np for fewer ranks from the end of an epoch"
        raise StateError(f"run {old.id} had {old.np} ranks, and the cluster has {cluster.slots} slots", remedy)
    return asked or old.np


def read(place: Home, head: Session, old: Run) -> tuple[TrainConfig, Checkpoints]:
    """What ``old`` trained with, and its checkpoints. Raises StateError where it goes on, or has none."""
    if runs.look(place, head, old).state == "running":
        raise StateError(f"run {old.id} is still going on", f"{command(f'stop {old.id}', place.name)} stops it")
    settings = head.run(["cat", f"{old.directory}/config.json"])
    index = head.run(["cat", f"{old.directory}/checkpoints/index.json"])
    if settings.exit_code or index.exit_code:
        raise nothing_there(place, old)
    try:
        found = TrainConfig.model_validate_json(settings.output), Checkpoints.model_validate_json(index.output)
    except ValidationError as error:
        raise ContractError(f"run {old.id}: its files have another shape: {error}") from error
    if found[0].data and head.run(["test", "-d", found[0].data]).exit_code:
        raise StateError(f"run {old.id}: its data set is not at {found[0].data} on the cluster any more", _anew(place))
    return found


def nothing_there(place: Home, old: Run) -> StateError:
    """Where the cluster has no checkpoint of ``old``: there was none, or it went with another cluster."""
    kept = place.runs / old.id / "checkpoints"
    if not records.is_resumable(place, old):
        return StateError(f"run {old.id} has no checkpoint on the cluster", _anew(place))
    gone = f"run {old.id} has no checkpoint on the cluster any more: they went with the one that was torn down"
    return StateError(f"{gone}. Its newest is kept in {kept}, from where no run goes on", _anew(place))


def _anew(place: Home) -> str:
    return f"{command('train', place.name)} with its options starts it anew"


def continued(
    settings: TrainConfig, index: Checkpoints, old: Run, np: int, limits: Mapping[str, Any], cluster: str
) -> TrainConfig:
    """The configuration of a run on ``np`` ranks that continues ``old``; its own ``run`` is for the caller to set.

    Everything is as it was, but for ``limits``. New epochs put aside a number of steps that was asked for before.
    """
    point = choose(index, old, np, cluster)
    aside = {"steps": None} if "epochs" in limits else {}
    again = settings.model_copy(update={**aside, **limits})
    _require_more(again, point, old)
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


def _require_more(settings: TrainConfig, point: Kept, old: Run) -> None:
    """Raises ConfigError where there is nothing left to do."""
    if settings.steps is not None and point.step >= settings.steps:
        raise ConfigError([f"train.steps: {settings.steps}: run {old.id} has made {point.step}"], MORE)
    if point.whole and point.top1 is not None and point.epoch >= settings.epochs:
        raise ConfigError([f"train.epochs: {settings.epochs}: run {old.id} has made {point.epoch}"], MORE)
