"""Initial weights of convolutions and hidden layers, which can be drawn in a thread after the network is built.

Drawing takes as long as building the rest of ResNet-50, and no part of a step's trace needs it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import keras
import tensorflow as tf
from keras import layers


class HeNormal(keras.initializers.HeNormal):
    """Initializer of He et al. 2015, "Delving Deep into Rectifiers" (arXiv 1502.01852), equation 10, cut off at two
    deviations.

    Give a layer the class, not an instance, which Keras would copy with another seed: each layer makes its own, with a
    seed drawn in the order of the layers in the code. So postponed weights have the same bits.
    """

    postpone = False
    postponed = False

    def __call__(self, shape: Sequence[int], dtype: str) -> tf.Tensor:
        """Draw weights; within :func:`postponed`, return weights of any value."""
        self.postponed = HeNormal.postpone
        return tf.raw_ops.Empty(shape=shape, dtype=dtype) if self.postponed else super().__call__(shape, dtype)


@contextmanager
def postponed() -> Iterator[None]:
    """Build networks without weights of :class:`HeNormal`; call :func:`draw_in_background` before they are used."""
    HeNormal.postpone = True
    try:
        yield
    finally:
        HeNormal.postpone = False


def draw_in_background(model: keras.Model) -> "Future[None]":
    """Draw the postponed weights of ``model`` in a thread; the result is there as soon as all are drawn."""
    executor = ThreadPoolExecutor(1)
    drawn = executor.submit(_draw, model.layers)
    executor.shutdown(wait=False)
    return drawn


def _draw(drawn: "list[layers.Layer]") -> None:
    for layer in drawn:
        initializer = getattr(layer, "depthwise_initializer", None) or getattr(layer, "kernel_initializer", None)
        if isinstance(initializer, HeNormal) and initializer.postponed:
            layer.kernel.assign(initializer(layer.kernel.shape, layer.kernel.dtype))
