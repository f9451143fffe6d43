"""Depthwise convolution, whose gradient of the images is an operation of this project for strides greater than one.

TensorFlow's kernel takes 30 to 200 times as long in bfloat16 (docs/performance-explained.md).
"""

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.tensorflow_operations import library

MOST_TAPS = 9  # of a kernel, for docker/tensorflow_operations/depthwise_gradient.cc


@keras.saving.register_keras_serializable(package="orchestrator")
class DepthwiseConvolution2D(layers.DepthwiseConv2D):
    """Keras' layer with the same result, which uses the operation in training.

    ``whole`` allows it; XLA cannot compile it.
    """

    whole = True

    def call(self, inputs: tf.Tensor, training: "bool | None" = None) -> tf.Tensor:
        if not (training and self.whole and self._is_computed(inputs) and library.load()):
            return super().call(inputs)
        kernel = tf.convert_to_tensor(self.kernel)
        result: tf.Tensor = _convolve(inputs, kernel, self.strides[0], self.padding.upper())
        return result

    def _is_computed(self, inputs: tf.Tensor) -> bool:
        """Tell whether the operation computes the gradient of this layer's images."""
        plain = self.depth_multiplier == 1 and not self.use_bias and self.activation is keras.activations.linear
        usual = self.data_format == "channels_last" and max(self.dilation_rate) == 1 and len(set(self.strides)) == 1
        small = self.kernel_size[0] * self.kernel_size[1] <= MOST_TAPS
        return plain and usual and small and self.strides[0] > 1 and inputs.dtype in library.DTYPES


def _convolve(images: tf.Tensor, weights: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    strides = [1, stride, stride, 1]

    @tf.custom_gradient
    def convolve(x: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, object]:
        def gradients(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            of_kernel = tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
                input=x, filter_sizes=kernel.shape, out_backprop=upstream, strides=strides, padding=padding
            )
            return to_images(x.shape, kernel, upstream, stride, padding), of_kernel

        return tf.nn.depthwise_conv2d(x, kernel, strides, padding), gradients

    return convolve(images, weights)


def to_images(shape: tf.TensorShape, kernel: tf.Tensor, upstream: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Compute the gradient of images of ``shape`` (batch, height, width, channels) from that of the result."""
    _, rows, columns, _ = shape
    return library.load().orchestrator_depthwise_gradient(
        dy=upstream, kernel=kernel, rows=rows, columns=columns, stride=stride, padding=padding
    )
