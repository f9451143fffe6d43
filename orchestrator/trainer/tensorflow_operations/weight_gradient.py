"""Gradient of convolutions' weights in bfloat16, by an operation (docker/tensorflow_operations/weight_gradient.cc)."""

import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import library


def exists_for(dtype: "tf.DType | str") -> bool:
    """Tell whether this image has the operation, and it computes in ``dtype``."""
    return tf.as_dtype(dtype) == tf.bfloat16 and library.load() is not None


def to_weights(kernel: tf.TensorShape, x: tf.Tensor, upstream: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Compute the gradient of a kernel of this shape from that of the result."""
    size = {"height": kernel[0], "width": kernel[1]}
    return library.load().orchestrator_weight_gradient(x=x, dy=upstream, **size, stride=stride, padding=padding)
