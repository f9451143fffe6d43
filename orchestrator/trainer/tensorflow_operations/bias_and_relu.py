"""Bias and ReLU, whose gradients are one operation for CPUs (docker/tensorflow_operations/relu_gradient.cc)."""

import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import library


def exist_for(dtype: tf.DType) -> bool:
    """Tell whether this image has the operation, and it computes in ``dtype``."""
    return dtype in library.DTYPES and library.load() is not None


def apply(images: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Add a bias (channels) to images (batch, height, width, channels), and replace negative numbers by zero."""

    @tf.custom_gradient
    def biased(x: tf.Tensor, added: tf.Tensor) -> tuple[tf.Tensor, object]:
        y = tf.nn.relu(tf.nn.bias_add(x, added))
        return y, lambda dy: tuple(library.load().orchestrator_relu_gradient(dy=dy, y=y))

    result: tf.Tensor = biased(images, bias)
    return result
