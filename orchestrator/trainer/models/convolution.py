"""Convolutions with a choice of implementations for each of their three products."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models import convolution_products, convolution_weight_gradient
from orchestrator.trainer.tensorflow_operations import bfloat16_convolution, bias_and_relu

SMALL_GRID = 64  # pixels of the result; with more, TensorFlow's kernels are as fast as pairs, and patches cost too much
KERNEL, PRODUCT, SHIFTS, PAIRS = "kernel", "product", "shifts", "pairs"
Operation = Callable[..., tf.Tensor]
Operations = dict[str, Operation]


class Ways(NamedTuple):
    """Implementation of the result, of the inputs' gradient and of the weights' gradient."""

    forward: str = KERNEL
    inputs: str = KERNEL
    weights: str = KERNEL


class Geometry(NamedTuple):
    """Shape of a convolution: its speed depends on this, the batch, the precision and the machine."""

    height: int
    width: int
    stride: int
    padding: str
    rows: int
    columns: int
    channels: int
    filters: int

    def __str__(self) -> str:
        size, grid = f"{self.height}x{self.width}", f"{self.rows}x{self.columns}"
        return f"{size}/{self.stride} {self.padding} {grid} {self.channels} {self.filters}"

    @property
    def pixels(self) -> int:
        """Pixels of the result of one image."""
        return math.ceil(self.rows / self.stride) * math.ceil(self.columns / self.stride)

    @property
    def operations(self) -> int:
        """Multiplications for one image."""
        return self.pixels * self.height * self.width * self.channels * self.filters

    @property
    def default(self) -> Ways:
        """Implementations without a measurement."""
        return Ways(weights=PRODUCT if self.height * self.width == 1 else KERNEL)

    def operations_of(self, kernel: tf.TensorShape, dtype: "tf.DType | str") -> dict[str, Operations]:
        """Return the implementations in ``dtype`` of each field of :class:`Ways`, by name.

        ``forward`` takes images and the kernel, ``inputs`` images, the kernel and the gradient of the result, and
        ``weights`` images and that gradient.
        """
        where = {"strides": [1, self.stride, self.stride, 1], "padding": self.padding}
        spacing: dict[str, Any] = {"stride": self.stride, "padding": self.padding}
        small = self.height * self.width == 1
        on_small_grid = not small and self.pixels <= SMALL_GRID
        forward: Operations = {KERNEL: lambda x, k: tf.nn.conv2d(x, k, **where)}
        inputs: Operations = {
            KERNEL: lambda x, k, up: tf.raw_ops.Conv2DBackpropInput(
                input_sizes=tf.shape(x), filter=k, out_backprop=up, **where
            )
        }
        weights: Operations = {KERNEL: partial(convolution_weight_gradient.to_weights, kernel, **spacing)}
        if small or on_small_grid:
            forward[PRODUCT] = partial(convolution_products.forward, **spacing)
            weights[PRODUCT] = partial(convolution_products.to_weights, kernel, **spacing)
        elif (self.height, self.width, self.stride, self.padding) == (3, 3, 1, "SAME"):
            weights[SHIFTS] = convolution_products.by_shifts
        if bfloat16_convolution.exists_for(dtype):
            weights[PAIRS] = partial(bfloat16_convolution.to_weights, kernel, **spacing)
            if on_small_grid and self.channels % 2 == 0:
                forward[PAIRS] = partial(bfloat16_convolution.forward, **spacing)
            if on_small_grid and self.filters % 2 == 0:
                inputs[PAIRS] = lambda x, k, up: bfloat16_convolution.to_inputs(x.shape, k, up, **spacing)
        if small:
            inputs[PRODUCT] = lambda x, k, up: convolution_products.to_inputs(x.shape, k, up, self.stride)
        return {"forward": forward, "inputs": inputs, "weights": weights}


@keras.saving.register_keras_serializable(package="orchestrator")
class Convolution2D(layers.Conv2D):
    """Keras' layer with the same result, whose products are computed in the chosen ``ways`` unless there is a GPU.

    ``whole`` allows operations of this project in training, which XLA cannot compile.
    """

    ways: "Ways | None" = None
    whole = True

    def geometry(self, images: tf.TensorShape) -> Geometry:
        """Return the geometry for images of this shape."""
        (height, width), (_, rows, columns, channels) = self.kernel_size, images
        return Geometry(height, width, self.strides[0], self.padding.upper(), rows, columns, channels, self.filters)

    @property
    def has_geometry(self) -> bool:
        """Whether a :class:`Geometry` describes this layer; Keras computes any other one."""
        unusual = self.groups > 1 or self.data_format == "channels_first" or max(self.dilation_rate) > 1
        return not unusual and len(set(self.strides)) == 1

    def call(self, inputs: tf.Tensor, training: "bool | None" = None) -> tf.Tensor:
        rectified = self.activation is keras.activations.relu and self.use_bias and self.has_geometry
        if not (training and self.whole and rectified and bias_and_relu.exist_for(inputs.dtype)):
            return super().call(inputs)
        return bias_and_relu.apply(self.convolution_op(inputs, self.kernel), tf.convert_to_tensor(self.bias))

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        if not self.has_geometry or tf.config.get_visible_devices("GPU"):
            return super().convolution_op(inputs, kernel)
        geometry = self.geometry(inputs.shape)
        return _convolved(inputs, kernel, geometry, self.ways or geometry.default)


def _convolved(inputs: tf.Tensor, kernel: tf.Tensor, geometry: Geometry, ways: Ways) -> tf.Tensor:
    kernel = tf.convert_to_tensor(kernel)
    chosen = implementations(geometry, kernel.shape, kernel.dtype, ways)

    @tf.custom_gradient
    def convolve(x: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, object]:
        def gradients(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return chosen["inputs"](x, weights, upstream), chosen["weights"](x, upstream)

        return chosen["forward"](x, weights), gradients

    result: tf.Tensor = convolve(inputs, kernel)
    return result


def implementations(geometry: Geometry, kernel: tf.TensorShape, dtype: tf.DType, ways: Ways) -> Mapping[str, Operation]:
    """Return the chosen implementation of each product; TensorFlow's kernel for one that this image does not have."""
    operations = geometry.operations_of(kernel, dtype)
    return {name: by_name.get(getattr(ways, name), by_name[KERNEL]) for name, by_name in operations.items()}
