"""Convolutions whose weights' gradients are matrix products where these are faster.

TensorFlow's CPU kernels (oneDNN 3.7) compute the gradient of a convolution's weights at a fraction of the speed of the
two other products, above all in bfloat16 with AMX. docs/performance.md has the figures.
"""

import math

import keras
import tensorflow as tf
from keras import layers

PATCHED_PIXELS = 16  # of the result: above, writing every pixel's patch costs more than the product gains


@keras.saving.register_keras_serializable(package="orchestrator")
class Convolution2D(layers.Conv2D):
    """Keras' layer, of the same result; on a CPU the gradient of 1x1 kernels, and of small images, is a product."""

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        kernel = tf.convert_to_tensor(kernel)
        size, stride = kernel.shape[:2], max(self.strides)
        pixels = math.prod(math.ceil(pixels / stride) for pixels in inputs.shape[1:3])
        by_product = size == (1, 1) or pixels <= PATCHED_PIXELS
        if not by_product or self.groups > 1 or tf.config.get_visible_devices("GPU"):
            return super().convolution_op(inputs, kernel)
        return _convolved(inputs, kernel, stride, self.padding.upper())


def _convolved(inputs: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    strides = [1, stride, stride, 1]

    @tf.custom_gradient
    def convolve(x: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, object]:
        def gradients(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            to_input = tf.raw_ops.Conv2DBackpropInput(
                input_sizes=tf.shape(x), filter=weights, out_backprop=upstream, strides=strides, padding=padding
            )
            patches = _patches(x, weights.shape, stride, padding)
            columns = tf.reshape(upstream, [-1, weights.shape[-1]])
            return to_input, tf.reshape(tf.matmul(patches, columns, transpose_a=True), weights.shape)

        return tf.nn.conv2d(x, weights, strides, padding), gradients

    result: tf.Tensor = convolve(inputs, kernel)
    return result


def _patches(x: tf.Tensor, kernel: tf.TensorShape, stride: int, padding: str) -> tf.Tensor:
    """What each pixel of the result is a product of: (pixels of the batch, height * width * channels)."""
    height, width, channels, _ = kernel
    if (height, width) == (1, 1):
        # TensorFlow has a fast kernel for pooling, and none for slices with a stride.
        seen = tf.nn.max_pool2d(x, 1, stride, "VALID") if stride > 1 else x
    else:
        seen = tf.image.extract_patches(x, [1, height, width, 1], [1, stride, stride, 1], [1, 1, 1, 1], padding)
    return tf.reshape(seen, [-1, height * width * channels])
