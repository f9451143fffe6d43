"""Gradients, averaged over all ranks, how long a rank waited for them, and what ranks agree on meanwhile."""

import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def averages(gradients: list[tf.Tensor], fp16: bool) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The means over all ranks, and the seconds waited for them: a float64 in the host's memory, 0 on one rank.

    For compiled functions. Each gradient is reduced as soon as it is there, while others are still being computed:
    such communication costs no time of its own. What is measured is what is left: from the moment at which this rank
    has all its gradients, to the moment at which it has everybody's. That holds the wait for ranks that are slower.

    The host waits for nothing that it does not wait for anyway: the function ends after Horovod's operations, and
    these end on the host when the network has done its part (HOROVOD_ENABLE_ASYNC_COMPLETION is off by default).
    """
    if hvd.size() == 1:
        with tf.device("CPU:0"):
            return gradients, tf.zeros([], tf.float64)
    ready = _computed(gradients)
    compression = hvd.Compression.fp16 if fp16 else hvd.Compression.none
    reduced = [
        hvd.allreduce(gradient, op=hvd.Average, compression=compression, name=f"gradient.{number}")
        for number, gradient in enumerate(gradients)
    ]
    with tf.control_dependencies(reduced):
        return reduced, _clock(_seconds_since, ready)


def total(numbers: tf.Tensor) -> tf.Tensor:
    """The sum over all ranks of int32 ``numbers``, in the host's memory. Every rank calls it, in a step or between two.

    In a step it costs no time: it needs nothing of what is computed, so it is over before the first gradient is there.
    """
    with tf.device("CPU:0"):
        return hvd.allreduce(numbers, op=hvd.Sum, name="total") if hvd.size() > 1 else tf.identity(numbers)


def _computed(tensors: list[tf.Tensor]) -> tf.Tensor:
    """The time at which all are computed, and not merely begun, as a GPU's are when TensorFlow goes on.

    A number that is taken from one of them after all were begun comes to the host when the GPU is through with them:
    its stream works in order.
    """
    with tf.control_dependencies(tensors):
        number = tf.reshape(tensors[-1], [-1])[0]
    return _clock(_now, number)


def _clock(look: "object", after: tf.Tensor) -> tf.Tensor:
    """A look at the host's clock, in Python: tf.timestamp() refuses where operations are to be deterministic."""
    seconds = tf.numpy_function(look, [after], tf.float64)
    seconds.set_shape([])
    return seconds


def _now(_: np.ndarray) -> np.float64:
    return np.float64(time.perf_counter())


def _seconds_since(earlier: np.ndarray) -> np.float64:
    return np.float64(time.perf_counter() - earlier)


def size(shapes: "list[tf.TensorShape]", fp16: bool) -> int:
    """Bytes that one step gives to allreduce for float32 variables of these shapes; 0 on one rank."""
    elements = sum(shape.num_elements() for shape in shapes)
    return 0 if hvd.size() == 1 else elements * (2 if fp16 else 4)
