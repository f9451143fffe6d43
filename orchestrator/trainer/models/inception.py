"""GoogLeNet: Szegedy et al. 2015, "Going Deeper with Convolutions" (CVPR), table 1.

It omits the two auxiliary classifiers, which Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer
Vision" (CVPR), section 4, found to help neither convergence nor, for the lower one, the result; and local response
normalisation (see lenet_alexnet_vgg.py).
"""

import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.pooling import MaxPooling2D
from orchestrator.trainer.models.shared_layers import convolution, logits

# Filters of 1x1; of the 1x1 before 3x3, and of 3x3; of the 1x1 before 5x5, and of 5x5; of the 1x1 after pooling.
STAGES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


def googlenet(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build GoogLeNet: three stages of inception modules after three convolutions."""
    x = _halved(convolution(x, 64, 7, stride=2))
    x = convolution(convolution(x, 64, 1), 192, 3)
    for stage in STAGES:
        x = _halved(x)
        for filters in stage:
            x = _module(x, *filters)
    x = layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(x))
    return logits(x, classes)


def _halved(x: tf.Tensor) -> tf.Tensor:
    return MaxPooling2D(3, strides=2, padding="same")(x)


def _module(x: tf.Tensor, one: int, before3: int, three: int, before5: int, five: int, pooled: int) -> tf.Tensor:
    """Build four parallel branches (ibid., figure 2b)."""
    branches = [
        convolution(x, one, 1),
        convolution(convolution(x, before3, 1), three, 3),
        convolution(convolution(x, before5, 1), five, 5),
        convolution(MaxPooling2D(3, strides=1, padding="same")(x), pooled, 1),
    ]
    return layers.Concatenate()(branches)
