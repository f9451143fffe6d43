"""Convolutions in bfloat16 by operations that multiply pairs of numbers, for CPUs with AVX512_BF16.

They are in docker/tensorflow_operations: convolution.cc and weight_gradient.cc.
"""

import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import library


def exists_for(dtype: "tf.DType | str") -> bool:
    """Tell whether this image has the operations, and they compute in ``dtype``."""
    return tf.as_dtype(dtype) == tf.bfloat16 and library.load() is not None


def forward(x: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Convolve images (batch, height, width, channels) with an even number of channels."""
    _, rows, columns, _ = x.shape
    return _convolve(x, kernel, rows=rows, columns=columns, stride=stride, padding=padding, back=False)


def to_inputs(shape: tf.TensorShape, kernel: tf.Tensor, upstream: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Compute the gradient of images of ``shape`` from that of the result, which has an even number of filters."""
    _, rows, columns, _ = shape
    return _convolve(upstream, kernel, rows=rows, columns=columns, stride=stride, padding=padding, back=True)


def to_weights(kernel: tf.TensorShape, x: tf.Tensor, upstream: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Compute the gradient of a kernel of this shape from that of the result."""
    size = {"height": kernel[0], "width": kernel[1]}
    return library.load().orchestrator_weight_gradient(x=x, dy=upstream, **size, stride=stride, padding=padding)


def _convolve(images: tf.Tensor, kernel: tf.Tensor, **attributes: object) -> tf.Tensor:
    return library.load().orchestrator_convolution(images=images, kernel=kernel, **attributes)
