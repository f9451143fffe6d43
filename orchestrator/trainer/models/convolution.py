"""Convolutions whose weight gradients are computed as matrix products when these are faster.

TensorFlow's CPU kernels (oneDNN 3.7) compute the gradient of a convolution's weights at a fraction of the speed of the
two other products, above all in bfloat16 with AMX. docs/performance.md has the figures.
"""

import math
from collections.abc import Callable
from functools import partial

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer import cpu

PATCHED_PIXELS = 16  # of the result; with more, writing every pixel's patch costs more than the product gains
# Pixels times channels from which oneDNN's kernel for CPUs without AVX-512 takes up to three times as long as products.
SHIFTED = 1 << 15
SHIFTS_BYTES = 64 << 20  # bytes of three shifts of the images that are multiplied together
Gradient = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # of the weights, from inputs and the outputs' gradient


@keras.saving.register_keras_serializable(package="orchestrator")
class Convolution2D(layers.Conv2D):
    """Keras' layer with the same result; on a CPU the gradient of some kernels is a product.

    Those are 1x1 kernels, kernels of small images, and on CPUs without AVX-512 3x3 kernels of large images.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        kernel = tf.convert_to_tensor(kernel)
        padding, stride = self.padding.upper(), max(self.strides)
        pixels = math.prod(math.ceil(pixels / stride) for pixels in inputs.shape[1:3])
        if self.groups > 1 or tf.config.get_visible_devices("GPU"):
            return super().convolution_op(inputs, kernel)
        if kernel.shape[:2] == (1, 1) or pixels <= PATCHED_PIXELS:
            return _convolved(inputs, kernel, stride, padding, partial(_by_patches, kernel.shape, stride, padding))
        if stride == 1 and padding == "SAME" and _gains_by_shifts(kernel, pixels):
            return _convolved(inputs, kernel, stride, padding, _by_shifts)
        return super().convolution_op(inputs, kernel)


def _gains_by_shifts(kernel: tf.Tensor, pixels: int) -> bool:
    large = kernel.shape[:2] == (3, 3) and pixels * min(kernel.shape[2:]) >= SHIFTED
    flags = cpu.instructions() if large else set()
    return kernel.dtype == tf.float32 and "avx2" in flags and "avx512f" not in flags


def _convolved(inputs: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str, to_weights: Gradient) -> tf.Tensor:
    strides = [1, stride, stride, 1]

    @tf.custom_gradient
    def convolve(x: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, object]:
        def gradients(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            to_input = tf.raw_ops.Conv2DBackpropInput(
                input_sizes=tf.shape(x), filter=weights, out_backprop=upstream, strides=strides, padding=padding
            )
            return to_input, to_weights(x, upstream)

        return tf.nn.conv2d(x, weights, strides, padding), gradients

    result: tf.Tensor = convolve(inputs, kernel)
    return result


def _by_shifts(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    """Compute the gradient of a 3x3 kernel for a few images at a time, so that the temporary matrices stay small."""
    images, height, width, channels = x.shape
    images_at_once = max(1, SHIFTS_BYTES // ((height + 1) * (width + 1) * 3 * channels * x.dtype.size))
    firsts = range(0, images, images_at_once) if images else ()
    parts = [slice(first, first + images_at_once) for first in firsts] or [slice(None)]
    return tf.add_n([_of_shifts(x[part], upstream[part]) for part in parts])


def _of_shifts(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    """Compute the gradient of a 3x3 kernel as products of shifted images.

    Pixels are rows of a matrix, with a zero before each line and a line of zeros before each image. So leaving out rows
    shifts an image; three shifts stand side by side in one product.
    """
    line = x.shape[2] + 1
    pixels = tf.reshape(tf.pad(x, [[0, 1], [1, 0], [1, 0], [0, 0]]), [-1, x.shape[-1]])
    changes = tf.reshape(tf.pad(upstream, [[0, 0], [1, 0], [1, 0], [0, 0]]), [-1, upstream.shape[-1]])[line + 1 :]
    rows = tf.shape(changes)[0]
    side_by_side = tf.concat([pixels[column : column + rows + 2 * line] for column in range(3)], 1)
    shifted = [side_by_side[row * line : row * line + rows] for row in range(3)]
    products = [tf.matmul(shift, changes, transpose_a=True) for shift in shifted]
    return tf.reshape(tf.stack(products), [3, 3, x.shape[-1], upstream.shape[-1]])


def _by_patches(kernel: tf.TensorShape, stride: int, padding: str, x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    columns = tf.reshape(upstream, [-1, kernel[-1]])
    return tf.reshape(tf.matmul(_patches(x, kernel, stride, padding), columns, transpose_a=True), kernel)


def _patches(x: tf.Tensor, kernel: tf.TensorShape, stride: int, padding: str) -> tf.Tensor:
    """Return the inputs of each pixel of the result: (pixels of the batch, height * width * channels)."""
    height, width, channels, _ = kernel
    if (height, width) == (1, 1):
        # TensorFlow has a fast kernel for pooling, but none for slices with a stride.
        patches = tf.nn.max_pool2d(x, 1, stride, "VALID") if stride > 1 else x
    else:
        patches = tf.image.extract_patches(x, [1, height, width, 1], [1, stride, stride, 1], [1, 1, 1, 1], padding)
    return tf.reshape(patches, [-1, height * width * channels])
