"""What all ranks have in common: scores, batch normalisation statistics, and that their weights are the same."""

import hashlib
import math
import sys

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from orchestrator.schema import Scores
from orchestrator.trainer.setup import Trainer


def scores(trainer: Trainer, sums: tf.Tensor, split: str) -> Scores:
    """Means over what all ranks have summed up. Ends every rank's program where there is nothing to take a mean of."""
    loss, top1, top5, images = total(trainer, sums, split)
    if not images:
        none = "no step's loss was a number" if split == "training" else "no sample could be read"
        sys.exit(f"{split}: {none} {_place(trainer)}")
    return Scores(loss=loss / images, top1=top1 / images, top5=top5 / images, images=int(images))


def total(trainer: Trainer, sums: tf.Tensor, split: str) -> list[float]:
    """What all ranks have summed up. Ends every rank's program where the loss is no longer a number.

    Where a run goes on after such steps, it ends after too many of them in a row.
    """
    _name_skipped(trainer)
    trainer.guard.check(_place(trainer))
    found = hvd.allreduce(sums, op=hvd.Sum, name=f"scores.{split}").numpy().tolist()
    if not math.isfinite(found[0]):
        what = f"{split} loss is {found[0]} {_place(trainer)}{_culprits(trainer)}"
        sys.exit(f"{what}: a new run with a smaller --learning-rate may help, or --resume with --on-nan skip")
    return list(found)


def _name_skipped(trainer: Trainer) -> None:
    """Each rank for itself, once between two looks."""
    guard = trainer.guard
    if guard.on and (bad := guard.bad) is not None:
        skipped = f"goes on without its update ({guard.skipped} skipped so far)"
        print(
            f"rank {hvd.rank()}, step {trainer.first + bad}: loss is no number: {skipped}", file=sys.stderr, flush=True
        )
        guard.forget()


def _culprits(trainer: Trainer) -> str:
    """The step whose loss was the first that is no number, and the ranks whose it was; every rank calls it."""
    everyones = hvd.allgather_object(trainer.guard.bad)
    first = min((bad for bad in everyones if bad is not None), default=None)
    if first is None:
        return ""
    ranks = [str(rank) for rank, bad in enumerate(everyones) if bad == first]
    who = "every rank" if len(ranks) == hvd.size() > 1 else f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}"
    return f", first on {who}, step {trainer.first + first}"


def _place(trainer: Trainer) -> str:
    return f"after step {trainer.step} (epoch {trainer.epoch})"


def damaged(trainer: Trainer) -> list[str]:
    """The samples that any rank could not read, each once, sorted; every rank calls it, and nobody is asked in vain."""
    if trainer.config.on_damage == "stop":
        return []
    return sorted(set().union(*hvd.allgather_object(trainer.damaged)))


def digest(model: keras.Model) -> str:
    """SHA-256 of all weights. Raises RuntimeError where ranks do not agree on every bit of them.

    Integers are no weights: they say which units dropout drops next, which each rank draws for itself.
    """
    content = hashlib.sha256()
    for variable in (v for v in model.variables if keras.backend.is_float_dtype(v.dtype)):
        content.update(np.ascontiguousarray(variable.numpy()))
    digests = hvd.allgather_object(content.hexdigest())
    if len(set(digests)) != 1:
        raise RuntimeError(f"ranks disagree on the weights: {dict(enumerate(digests))}")
    return content.hexdigest()


def average_statistics(model: keras.Model) -> None:
    """Give every rank the mean of all ranks' batch normalisation statistics, which each gathered from its own shard."""
    statistics = [v.value for v in model.non_trainable_variables if v.dtype == "float32"]
    if statistics and hvd.size() > 1:
        for variable, mean in zip(
            statistics, hvd.grouped_allreduce([v.read_value() for v in statistics], op=hvd.Average), strict=False
        ):
            variable.assign(mean)
