"""The evaluation of a model by all ranks together, which leaves off where the run is asked to end."""

import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Scores
from orchestrator.trainer import agreement
from orchestrator.trainer.endings import LOOK_SECONDS, Watch
from orchestrator.trainer.setup import Trainer
from orchestrator.trainer.steps import TestStep


def scores(trainer: Trainer, watch: Watch, evaluate: TestStep, batches: Iterator[Any]) -> "Scores | None":
    """Of this rank's ``batches`` and those of all others; None where a rank was asked to end before they were through.

    Ranks agree about once a second, after equal numbers of batches, though one may have fewer than another.
    """
    sums, left, several = tf.zeros([4]), _most(trainer), 1
    while True:
        begun = time.monotonic()
        for images, labels in itertools.islice(batches, several):
            sums += evaluate(images, labels)
        sums.numpy()  # until they are through
        left -= several
        if left <= 0:
            return agreement.scores(trainer, sums, "test")
        each = max(time.monotonic() - begun, 1e-9) / several
        asked = watch.agree(max(1, min(left, int(LOOK_SECONDS / each))))
        if asked.terminate and trainer.ended != "steps":  # which no run that goes on would make up for
            return None
        several = asked.steps


def _most(trainer: Trainer) -> int:
    """Batches of the rank that has most."""
    return math.ceil(math.ceil(trainer.test_split.size / hvd.size()) / trainer.part)
