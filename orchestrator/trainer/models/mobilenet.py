"""MobileNetV2: Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (CVPR), tables 1 and 2."""

from functools import partial

import tensorflow as tf
from keras import layers

from orchestrator.schema import SMALL_IMAGE
from orchestrator.trainer.models.batch_normalization import normalization
from orchestrator.trainer.models.depthwise_convolution import DepthwiseConvolution2D
from orchestrator.trainer.models.he_initializer import HeNormal
from orchestrator.trainer.models.shared_layers import conv_bn, logits, unbiased

# Expansion, filters, blocks, stride of the first block (ibid., table 2).
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
_conv = partial(conv_bn, activation="relu6")


def mobilenet_v2(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build seven stages of inverted residual blocks between two convolutions.

    For small images, the first two strides of two are one, which leaves 4x4 of 32x32 pixels.
    """
    small = x.shape[1] < SMALL_IMAGE
    x = _conv(x, 32, 3, stride=1 if small else 2)
    for expansion, filters, count, first in STAGES:
        for block in range(count):
            stride = first if block == 0 and not (small and filters == 24) else 1
            x = _block(x, expansion, filters, stride)
    x = layers.GlobalAveragePooling2D()(_conv(x, 1280, 1))
    return logits(layers.Dropout(0.2)(x), classes)


def _block(x: tf.Tensor, expansion: int, filters: int, stride: int) -> tf.Tensor:
    """Widen, filter each map and narrow without ReLU; add the input if shapes agree."""
    y = x if expansion == 1 else _conv(x, expansion * x.shape[-1], 1)
    y = DepthwiseConvolution2D(3, strides=stride, padding="same", use_bias=False, depthwise_initializer=HeNormal)(y)
    y = unbiased(normalization("relu6")(y), filters, 1)
    return normalization()([y, x] if stride == 1 and x.shape[-1] == filters else y)
