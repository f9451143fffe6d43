"""Clock that compiled functions read. TensorFlow's own, ``tf.timestamp``, is refused in deterministic mode."""

import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import library


def read(after: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the time in seconds of ``time.perf_counter`` when ``after`` are computed, float64 in the host's memory.

    In a function, ``after`` must not be constants, nor the tensors of another reading: TensorFlow computes constants,
    and equal operations, once. A stateful operation would wait for the readings before it.

    On a GPU, tensors are launched before they are computed. Its stream works in order, so a number of one of them,
    taken after all were launched, reaches the host when all are computed.
    """
    if operations := library.load():
        return operations.orchestrator_clock(after=after)
    with tf.control_dependencies(after):
        number = tf.reshape(after[-1], [-1])[:1]
    seconds = tf.numpy_function(lambda _: np.float64(time.perf_counter()), [number], tf.float64, stateful=False)
    seconds.set_shape([])
    return seconds
