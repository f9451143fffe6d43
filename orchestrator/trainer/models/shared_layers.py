"""Layers that the networks share."""

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.batch_normalization import normalization
from orchestrator.trainer.models.convolution import Convolution2D
from orchestrator.trainer.models.he_initializer import HeNormal


def conv_bn(
    x: tf.Tensor,
    filters: int,
    size: "int | tuple[int, int]",
    stride: int = 1,
    padding: str = "same",
    activation: str = "linear",
    epsilon: float = 1e-5,
) -> tf.Tensor:
    """Apply a convolution without a bias, and batch normalisation, which has one.

    Args:
        x: Images (batch, height, width, channels).
        filters: Number of output channels.
        size: Height and width of the kernel.
        stride: Stride in both directions.
        padding: "same" or "valid".
        activation: "linear", "relu" or "relu6".
        epsilon: Added to the variance.

    Returns:
        Images (batch, new height, new width, filters).
    """
    return normalization(activation, epsilon=epsilon)(unbiased(x, filters, size, stride, padding))


def unbiased(
    x: tf.Tensor, filters: int, size: "int | tuple[int, int]", stride: int = 1, padding: str = "same"
) -> tf.Tensor:
    """Apply a convolution with He initialisation and without a bias. The arguments are those of :func:`conv_bn`."""
    return Convolution2D(filters, size, strides=stride, padding=padding, use_bias=False, kernel_initializer=HeNormal)(x)


def convolution(
    x: tf.Tensor, filters: int, size: "int | tuple[int, int]", stride: int = 1, padding: str = "same"
) -> tf.Tensor:
    """Apply a convolution with a bias and ReLU, as in networks before batch normalisation; He initialisation.

    The arguments are those of :func:`conv_bn`.
    """
    return Convolution2D(
        filters, size, strides=stride, padding=padding, activation="relu", kernel_initializer=HeNormal
    )(x)


def hidden(x: tf.Tensor, units: int) -> tf.Tensor:
    """Apply a fully connected layer with ReLU; He initialisation."""
    return layers.Dense(units, activation="relu", kernel_initializer=HeNormal)(x)


def logits(x: tf.Tensor, classes: int, start: "keras.Initializer | None" = None) -> tf.Tensor:
    """Apply the last layer, in float32 whatever the precision of the others.

    The default initializer has a deviation of 0.01 (Krizhevsky et al. 2012, section 5; Goyal et al. 2017, section 5.1),
    so that the first loss is that of guessing.

    Args:
        x: Features (batch, units).
        classes: Number of classes.
        start: Initializer of the kernel.

    Returns:
        Logits (batch, classes).
    """
    start = start or keras.initializers.RandomNormal(stddev=0.01)
    return layers.Dense(classes, kernel_initializer=start, dtype="float32")(x)
