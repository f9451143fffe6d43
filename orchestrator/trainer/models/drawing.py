"""Weights' first numbers, drawn beside the building of what follows.

TensorFlow draws on one thread, 27 ns for each number of a truncated normal distribution: 0.6 s for ResNet-50, in which
Python can build layers. What is drawn follows from the seed that an initializer takes when it is made, in the order in
which layers are written down, so it depends neither on when it is drawn nor on how many are drawn at once.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor

import keras
import tensorflow as tf

THREADS = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="drawing")
ROLES = ("kernel_initializer", "depthwise_initializer")


class Drawn(keras.Initializer):
    """The numbers of ``start``, for one kernel: zeros until :func:`fill` puts them into it."""

    def __init__(self, start: keras.Initializer) -> None:
        self.start = start
        self.numbers: Future[tf.Tensor] | None = None

    def __call__(self, shape: tuple[int, ...], dtype: "str | None" = None) -> tf.Tensor:
        self.numbers = THREADS.submit(self.start, shape, dtype)
        return tf.zeros(shape, dtype)


def he_normal() -> Drawn:
    """He et al. 2015, "Delving Deep into Rectifiers" (arXiv 1502.01852), equation 10, cut off at two deviations."""
    return Drawn(keras.initializers.HeNormal())


def fill(model: keras.Model) -> None:
    """Wait for all numbers that were asked for while ``model`` was built."""
    for layer in model.layers:
        for start in (getattr(layer, role, None) for role in ROLES):
            if isinstance(start, Drawn) and start.numbers:
                layer.kernel.assign(start.numbers.result())
                start.numbers = None
