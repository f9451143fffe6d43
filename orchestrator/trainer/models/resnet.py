"""Residual networks: resnet20, resnet50, resnet101.

Sources: He et al. 2016, "Deep Residual Learning for Image Recognition" (CVPR), section 3.3 and table 1 for the
bottleneck networks, section 4.2 for resnet20, whose shortcuts that widen are projections here (the paper has option A);
Goyal et al. 2017, "Accurate, Large Minibatch SGD" (arXiv 1706.02677), section 5.1: in the bottleneck networks the
stride sits in the 3x3 convolution, the last gamma of every block starts at zero, and the last layer's weights with a
deviation of 0.01.
"""

import keras
import tensorflow as tf
from keras import layers

from orchestrator.schema import SMALL_IMAGE
from orchestrator.trainer.models.batch_normalization import normalization
from orchestrator.trainer.models.pooling import MaxPooling2D
from orchestrator.trainer.models.shared_layers import conv_bn, logits, unbiased


def resnet20(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build three stages of three basic blocks of 16, 32 and 64 filters: 6n+2 layers with n = 3."""
    x = conv_bn(x, 16, 3, activation="relu")
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and filters > 16 else 1
            y = conv_bn(x, filters, 3, stride, activation="relu")
            x = _joined(unbiased(y, filters, 3), x, stride)
    return logits(layers.GlobalAveragePooling2D()(x), classes, keras.initializers.HeNormal())


def resnet50(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build a bottleneck network of 3, 4, 6 and 3 blocks."""
    return _bottleneck(x, classes, (3, 4, 6, 3))


def resnet101(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build a bottleneck network of 3, 4, 23 and 3 blocks."""
    return _bottleneck(x, classes, (3, 4, 23, 3))


def _bottleneck(x: tf.Tensor, classes: int, blocks: tuple[int, ...]) -> tf.Tensor:
    """Build four stages of 1x1, 3x3, 1x1 blocks with 64 to 512 filters inside and four times as many outside.

    For small images, the network starts with one 3x3 convolution and no pooling.
    """
    small = x.shape[1] < SMALL_IMAGE
    x = conv_bn(x, 64, 3 if small else 7, 1 if small else 2, activation="relu")
    x = x if small else MaxPooling2D(3, strides=2, padding="same")(x)
    for stage, count in enumerate(blocks):
        filters = 64 * 2**stage
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            y = conv_bn(x, filters, 1, activation="relu")
            y = conv_bn(y, filters, 3, stride, activation="relu")
            x = _joined(unbiased(y, 4 * filters, 1), x, stride, gamma="zeros")
    return logits(layers.GlobalAveragePooling2D()(x), classes)


def _joined(y: tf.Tensor, x: tf.Tensor, stride: int, gamma: str = "ones") -> tf.Tensor:
    """Normalise a block's last convolution, add the shortcut from its inputs and apply ReLU.

    The shortcut is the identity if shapes agree, else a 1x1 projection (option B of He et al.).
    """
    join = normalization("relu", gamma)  # before the shortcut's layers, since layers are numbered as they are made
    is_identity = stride == 1 and x.shape[-1] == y.shape[-1]
    return join([y, x if is_identity else conv_bn(x, y.shape[-1], 1, stride)])
