"""Inception v3: Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision" (CVPR), section 6.

Numbers of filters are those that its authors published with TensorFlow (research/slim/nets/inception_v3.py in
tensorflow/models), since the paper's table 1 does not give them all. The auxiliary classifier is omitted: table 3 puts
its gain at 0.4 points.
"""

from functools import partial

import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.pooling import MaxPooling2D
from orchestrator.trainer.models.shared_layers import conv_bn, logits

DROPOUT = 0.2  # as published with TensorFlow; the paper gives no value
_conv = partial(conv_bn, activation="relu", epsilon=1e-3)


def inception_v3(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build the stem, nine inception modules of three kinds with two grid reductions, and dropout before the logits."""
    x = _stem(x)
    for pooled in (32, 64, 64):
        x = _module5(x, pooled)
    x = _reduce5(x)
    for filters in (128, 160, 160, 192):
        x = _module7(x, filters)
    x = _reduce7(x)
    for _ in range(2):
        x = _wide(x)
    return logits(layers.Dropout(DROPOUT)(layers.GlobalAveragePooling2D()(x)), classes)


def _stem(x: tf.Tensor) -> tf.Tensor:
    x = _conv(x, 32, 3, stride=2, padding="valid")
    x = _conv(_conv(x, 32, 3, padding="valid"), 64, 3)
    x = _conv(MaxPooling2D(3, strides=2)(x), 80, 1)
    return MaxPooling2D(3, strides=2)(_conv(x, 192, 3, padding="valid"))


def _module5(x: tf.Tensor, pooled: int) -> tf.Tensor:
    """Build figure 5: one branch has two 3x3 convolutions for a 5x5 one."""
    double = _conv(_conv(_conv(x, 64, 1), 96, 3), 96, 3)
    return _joined(_conv(x, 64, 1), _conv(_conv(x, 48, 1), 64, 5), double, _conv(_pooled(x), pooled, 1))


def _reduce5(x: tf.Tensor) -> tf.Tensor:
    """Build figure 10: halve the grid by convolutions and pooling side by side."""
    double = _conv(_conv(_conv(x, 64, 1), 96, 3), 96, 3, stride=2, padding="valid")
    return _joined(_conv(x, 384, 3, stride=2, padding="valid"), double, MaxPooling2D(3, strides=2)(x))


def _module7(x: tf.Tensor, filters: int) -> tf.Tensor:
    """Build figure 6: 7x7 convolutions, each as a 1x7 and a 7x1 one."""
    once = _conv(_conv(_conv(x, filters, 1), filters, (1, 7)), 192, (7, 1))
    twice = _conv(x, filters, 1)
    for size in ((7, 1), (1, 7), (7, 1)):
        twice = _conv(twice, filters, size)
    return _joined(_conv(x, 192, 1), once, _conv(twice, 192, (1, 7)), _conv(_pooled(x), 192, 1))


def _reduce7(x: tf.Tensor) -> tf.Tensor:
    three = _conv(_conv(x, 192, 1), 320, 3, stride=2, padding="valid")
    seven = _conv(_conv(_conv(x, 192, 1), 192, (1, 7)), 192, (7, 1))
    return _joined(three, _conv(seven, 192, 3, stride=2, padding="valid"), MaxPooling2D(3, strides=2)(x))


def _wide(x: tf.Tensor) -> tf.Tensor:
    """Build figure 7: the last two branches end in a 1x3 and a 3x1 convolution side by side."""
    three, double = _conv(x, 384, 1), _conv(_conv(x, 448, 1), 384, 3)
    ends = [_conv(branch, 384, size) for branch in (three, double) for size in ((1, 3), (3, 1))]
    return _joined(_conv(x, 320, 1), *ends, _conv(_pooled(x), 192, 1))


def _pooled(x: tf.Tensor) -> tf.Tensor:
    return layers.AveragePooling2D(3, strides=1, padding="same")(x)


def _joined(*branches: tf.Tensor) -> tf.Tensor:
    return layers.Concatenate()(list(branches))
