"""Max pooling, also by operations whose gradients XLA compiles while TensorFlow is deterministic."""

from functools import reduce
from itertools import product

import keras
import tensorflow as tf
from keras import layers


@keras.saving.register_keras_serializable(package="orchestrator")
class MaxPooling2D(layers.MaxPooling2D):
    """Max pooling. With ``by_slices``, which gives the same values, XLA can compile the gradient.

    TensorFlow 2.21 refuses to compile the gradient of its own operation in deterministic mode, on CPUs too.
    """

    by_slices = False

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        if not self.by_slices:
            return super().call(inputs)
        return _maximum_of_slices(inputs, self.pool_size[0], self.strides[0], self.padding)


def _maximum_of_slices(x: tf.Tensor, size: int, stride: int, padding: str) -> tf.Tensor:
    """Compute the maximum of each window as the maximum of one slice for each place in the window."""
    if padding == "same":
        margins = [_margins(int(pixels), size, stride) for pixels in x.shape[1:3]]
        x = tf.pad(x, [(0, 0), *margins, (0, 0)], constant_values=x.dtype.min)
    spans = [stride * ((int(pixels) - size) // stride) + 1 for pixels in x.shape[1:3]]
    places = product(range(size), repeat=2)
    slices = [x[:, top : top + spans[0] : stride, left : left + spans[1] : stride] for top, left in places]
    return reduce(tf.maximum, slices)


def _margins(pixels: int, size: int, stride: int) -> tuple[int, int]:
    """Return the pixels that TensorFlow adds before and after, so that ``pixels`` / ``stride`` windows fit."""
    added = max((-(-pixels // stride) - 1) * stride + size - pixels, 0)
    return added // 2, added - added // 2
