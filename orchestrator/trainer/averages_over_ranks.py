"""Values common to all ranks: scores, batch normalisation statistics, and a digest of the weights."""

import hashlib
import math
import sys

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from orchestrator.schema import Scores
from orchestrator.trainer.rank_setup import Trainer


def scores(trainer: Trainer, sums: tf.Tensor, split: str) -> Scores:
    """Return the means of the scores of all ranks; ends the program of every rank if there are no images to average.

    Args:
        trainer: The rank's state.
        sums: This rank's summed loss, top-1 hits, top-5 hits and number of images, float32 (4).
        split: "training" or "test", for messages.

    Returns:
        Means over the images of all ranks.
    """
    loss, top1, top5, images = sum_scores(trainer, sums, split)
    if not images:
        problem = "the loss of no step was a number" if split == "training" else "no sample could be read"
        sys.exit(f"{split}: {problem} {trainer.position}")
    return Scores(loss=loss / images, top1=top1 / images, top5=top5 / images, images=int(images))


def sum_scores(trainer: Trainer, sums: tf.Tensor, split: str) -> list[float]:
    """Return the sums over all ranks; ends the program of every rank if the loss is not a number.

    A run that skips such steps ends only after too many of them in a row.

    Args:
        trainer: The rank's state.
        sums: This rank's sums, float32 (4), as in :func:`scores`.
        split: "training" or "test", for messages.

    Returns:
        The four sums over all ranks.
    """
    _report_skipped(trainer)
    trainer.guard.check(trainer.position)
    sums = hvd.allreduce(sums, op=hvd.Sum, name=f"scores.{split}").numpy().tolist()
    if not math.isfinite(sums[0]):
        problem = f"{split} loss is {sums[0]} {trainer.position}{_describe_bad_ranks(trainer)}"
        sys.exit(f"{problem}: use a smaller --learning-rate in a new run{_describe_resumption(trainer, split)}")
    return list(sums)


def _describe_resumption(trainer: Trainer, split: str) -> str:
    """Return the command that continues without the bad steps; empty if there is no checkpoint or it would not help."""
    if split != "training" or trainer.guard.on or not trainer.resumable:
        return ""
    return f", or `orchestrator train --resume {trainer.config.run} --on-nan skip`"


def _report_skipped(trainer: Trainer) -> None:
    """Report this rank's first skipped step since the last check."""
    guard = trainer.guard
    if guard.on and (step := guard.first_bad_step) is not None:
        skipped = f"its update was skipped ({guard.skipped} skipped so far)"
        print(
            f"rank {hvd.rank()}, step {trainer.steps_before + step}: loss is not a number: {skipped}",
            file=sys.stderr,
            flush=True,
        )
        guard.reset_bad_step()


def _describe_bad_ranks(trainer: Trainer) -> str:
    """Describe the first step whose loss was not a number, and its ranks; a collective call."""
    bad_steps = hvd.allgather_object(trainer.guard.first_bad_step)
    first = min((step for step in bad_steps if step is not None), default=None)
    if first is None:
        return ""
    ranks = [str(rank) for rank, step in enumerate(bad_steps) if step == first]
    culprits = "every rank" if len(ranks) == hvd.size() > 1 else f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}"
    return f", first on {culprits}, step {trainer.steps_before + first}"


def damaged_samples(trainer: Trainer) -> list[str]:
    """Return the sorted samples that any rank could not read.

    It is a collective call, which is skipped when on_bad_sample is stop.
    """
    if trainer.config.on_bad_sample == "stop":
        return []
    return sorted(set().union(*hvd.allgather_object(trainer.damaged)))


def digest(model: keras.Model) -> str:
    """Return the SHA-256 of all weights, equal on every rank.

    Integer variables are left out: they determine which units dropout drops next, and differ between ranks.

    Raises:
        RuntimeError: The weights of two ranks differ in at least one bit.
    """
    content = hashlib.sha256()
    for variable in (v for v in model.variables if keras.backend.is_float_dtype(v.dtype)):
        content.update(np.ascontiguousarray(variable.numpy()))
    digests = hvd.allgather_object(content.hexdigest())
    if len(set(digests)) != 1:
        raise RuntimeError(f"ranks disagree on the weights: {dict(enumerate(digests))}")
    return content.hexdigest()


def average_statistics(model: keras.Model) -> None:
    """Average the batch normalisation statistics, which each rank gathered from its own shard, over all ranks."""
    statistics = [v.value for v in model.non_trainable_variables if v.dtype == "float32"]
    if statistics and hvd.size() > 1:
        means = hvd.grouped_allreduce([v.read_value() for v in statistics], op=hvd.Average)
        for variable, mean in zip(statistics, means, strict=True):
            variable.assign(mean)
