"""Evaluation of a model by all ranks together, which stops early if the run is asked to end."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from orchestrator.schema import Scores
from orchestrator.trainer import averages_over_ranks
from orchestrator.trainer.compiled_steps import TestStep
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.stop_conditions import POLL_SECONDS, StopControl


def scores(trainer: Trainer, stop_control: StopControl, evaluate: TestStep, batches: Iterator[Any]) -> "Scores | None":
    """Evaluate this rank's ``batches`` and combine the scores of all ranks.

    Ranks agree on ending about once a second, after equal numbers of batches, though their own numbers may differ.

    Args:
        trainer: The rank's model and data.
        stop_control: Collects and combines requests to end.
        evaluate: Compiled step of evaluation.
        batches: Images and labels of this rank's share of the test split.

    Returns:
        Means over the test split; None if a rank was asked to end before the evaluation was complete.
    """
    sums, remaining, batches_at_once = tf.zeros([4]), trainer.test_batches, 1
    while True:
        started = time.monotonic()
        for images, labels in itertools.islice(batches, batches_at_once):
            sums += evaluate(images, labels)
        sums.numpy()  # waits for the batches
        remaining -= batches_at_once
        if remaining <= 0:
            return averages_over_ranks.scores(trainer, sums, "test")
        seconds_per_batch = max(time.monotonic() - started, 1e-9) / batches_at_once
        votes = stop_control.agree(max(1, min(remaining, int(POLL_SECONDS / seconds_per_batch))))
        if votes.terminate and trainer.ended != "steps":  # a run ended by --steps is not resumed to make up for it
            return None
        batches_at_once = votes.steps
