"""The operation for the gradients of a bias and ReLU compared with TensorFlow's operations."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.convolution import Convolution2D
from orchestrator.trainer.tensorflow_operations import bias_and_relu, library

SHAPES = [(1, 1, 1, 1), (2, 3, 5, 7), (4, 16, 16, 64), (3, 33, 17, 3), (0, 4, 4, 8), (32, 2, 2, 200)]


def gradients_of(images: tf.Tensor, bias: tf.Tensor, upstream: tf.Tensor) -> list[tf.Tensor]:
    """Return the gradients of images and bias by the operation."""
    with tf.GradientTape() as tape:
        tape.watch([images, bias])
        result = bias_and_relu.apply(images, bias)
    gradients: list[tf.Tensor] = tape.gradient(result, [images, bias], upstream)
    return gradients


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_tensorflow(shape: tuple[int, ...], dtype: str) -> None:
    """Numbers are small integers, whose sums are exact."""
    random = np.random.default_rng(4)
    images, upstream = (tf.cast(random.integers(-2, 3, shape), dtype) for _ in range(2))
    bias = tf.cast(random.integers(-1, 2, shape[-1:]), dtype)
    of_images, of_bias = gradients_of(images, bias, upstream)
    kept = tf.where(tf.nn.bias_add(images, bias) > 0, upstream, tf.zeros_like(upstream))
    np.testing.assert_array_equal(of_images, kept)
    np.testing.assert_array_equal(of_bias, tf.cast(tf.reduce_sum(tf.cast(kept, tf.float32), [0, 1, 2]), dtype))


def test_gradient_that_is_not_a_number_passes_where_the_result_is_positive() -> None:
    images, upstream = tf.constant([[[[np.nan, 1.0, -1.0]]]]), tf.constant([[[[1.0, np.nan, np.nan]]]])
    of_images, of_bias = gradients_of(images, tf.zeros([3]), upstream)
    np.testing.assert_array_equal(of_images, [[[[0.0, np.nan, 0.0]]]])
    np.testing.assert_array_equal(of_bias, [0.0, np.nan, 0.0])


def products(kind: type[layers.Conv2D], training: bool = True, **options: Any) -> list[np.ndarray]:
    """Return outputs, and gradients of inputs and weights, of a layer with fixed weights."""
    random = np.random.default_rng(3)
    layer = kind(**{"filters": 7, "kernel_size": 3, "padding": "same", "activation": "relu", **options})
    images = tf.constant(random.normal(size=(2, 6, 6, 5)), layer.compute_dtype)
    layer.build(images.shape)
    layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
    weights = [weight.value for weight in layer.weights]

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, training=training) if kind is Convolution2D else layer(x)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        return [outputs, *tape.gradient(loss, [x, *weights])]

    return [np.asarray(part) for part in step(images)]


def test_layer_equals_that_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = mock.Mock(wraps=bias_and_relu.apply)
    monkeypatch.setattr(bias_and_relu, "apply", applied)
    ours = products(Convolution2D)
    applied.assert_called_once()
    for actual, expected in zip(ours, products(layers.Conv2D), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{"training": False}, {"use_bias": False}, {"activation": "tanh"}, {"dtype": "float16"}]
)
def test_other_layers_are_left_to_keras(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bias_and_relu, "apply", None)
    products(Convolution2D, **options)


def test_layer_without_the_operation_is_that_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older image lacks it, and XLA cannot compile it."""
    monkeypatch.setattr(bias_and_relu, "apply", None)
    for owner, name, value in ((Convolution2D, "whole", False), (library, "load", lambda: None)):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, value)
            products(Convolution2D)


def test_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"dy has shape \[2\] and y \[3\], expected the same"):
        library.load().orchestrator_relu_gradient(dy=tf.ones([2]), y=tf.ones([3]))
