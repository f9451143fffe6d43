"""Depthwise convolutions compared with Keras' own layer."""

from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models import depthwise_convolution
from orchestrator.trainer.models.depthwise_convolution import DepthwiseConvolution2D
from orchestrator.trainer.tensorflow_operations import library

# rows, columns, channels, height and width of the kernel, stride
SHAPES = [
    (3, 3, 1, 3, 3, 2),
    (8, 8, 32, 3, 3, 2),
    (9, 7, 33, 3, 3, 2),
    (16, 5, 100, 3, 3, 3),
    (6, 6, 5, 2, 2, 3),  # pixels that no result reads
    (7, 12, 16, 1, 7, 2),
    (5, 5, 8, 3, 3, 1),
]
OTHERS: list[dict[str, Any]] = [
    {"strides": 1},
    {"use_bias": True},
    {"activation": "relu"},
    {"depth_multiplier": 2},
    {"kernel_size": 5},
    {"strides": (2, 2), "dtype": "float16"},
]


def products(kind: type[layers.DepthwiseConv2D], **options: Any) -> list[np.ndarray]:
    """Return outputs, and gradients of inputs and weights, of a layer with fixed weights."""
    random = np.random.default_rng(3)
    settings = {"kernel_size": 3, "strides": 2, "padding": "same", "use_bias": False, "dtype": "float32", **options}
    images = tf.constant(random.normal(size=(4, 9, 9, 6)), settings["dtype"])
    layer = kind(**settings)
    layer.build(images.shape)
    layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, training=True) if kind is DepthwiseConvolution2D else layer(x)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        return [outputs, *tape.gradient(loss, [x, layer.kernel.value])]

    return [np.asarray(part) for part in step(images)]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_the_exact_one_rounded(shape: tuple[int, ...], dtype: str, padding: str) -> None:
    """Numbers are small integers, whose sums float32 holds exactly."""
    rows, columns, channels, height, width, stride = shape
    random, strides = np.random.default_rng(11), [1, stride, stride, 1]
    x, kernel = (random.integers(-9, 10, s) for s in ((3, rows, columns, channels), (height, width, channels, 1)))
    wide = [tf.cast(numbers, tf.float32) for numbers in (x, kernel)]
    with tf.GradientTape() as tape:
        tape.watch(wide[0])
        result = tf.nn.depthwise_conv2d(*wide, strides, padding)
    upstream = tf.cast(random.integers(-9, 10, result.shape), tf.float32)
    exact = tape.gradient(result, wide[0], upstream)
    narrow, change = (tf.cast(numbers, dtype) for numbers in (wide[1], upstream))
    actual = depthwise_convolution.to_images(wide[0].shape, narrow, change, stride, padding)
    np.testing.assert_array_equal(actual, tf.cast(exact, dtype))


def test_gradient_of_no_images_is_empty() -> None:
    images, kernel, upstream = tf.TensorShape([0, 8, 8, 4]), tf.ones([3, 3, 4, 1]), tf.zeros([0, 4, 4, 4])
    assert depthwise_convolution.to_images(images, kernel, upstream, 2, "SAME").shape == images


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_layer_with_a_stride_of_two_equals_that_of_keras(padding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = mock.Mock(wraps=depthwise_convolution.to_images)
    monkeypatch.setattr(depthwise_convolution, "to_images", computed)
    ours = products(DepthwiseConvolution2D, padding=padding)
    computed.assert_called_once()
    for actual, expected in zip(ours, products(layers.DepthwiseConv2D, padding=padding), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", OTHERS)
def test_what_the_operation_does_not_compute_is_left_to_keras(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depthwise_convolution, "to_images", None)
    for actual, expected in zip(
        products(DepthwiseConvolution2D, **options), products(layers.DepthwiseConv2D, **options), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


def test_layer_without_the_operation_is_that_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older image lacks it, and XLA cannot compile it."""
    expected = products(layers.DepthwiseConv2D)
    monkeypatch.setattr(depthwise_convolution, "to_images", None)
    for owner, name, value in ((DepthwiseConvolution2D, "whole", False), (library, "load", lambda: None)):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, value)
            for actual, other in zip(products(DepthwiseConvolution2D), expected, strict=True):
                np.testing.assert_array_equal(actual, other)


@pytest.mark.parametrize(
    ("upstream", "kernel", "problem"),
    [
        ((2, 4, 4, 8), (4, 4, 8, 1), "at most 9 taps"),
        ((2, 4, 4, 8), (3, 3, 8, 2), "one filter for each channel"),
        ((4, 4, 8), (3, 3, 8, 1), "3 dimensions"),
        ((2, 5, 4, 8), (3, 3, 8, 1), r"\[2,5,4,8\], expected \[2,4,4,8\]"),
        ((2, 4, 4, 7), (3, 3, 8, 1), r"\[2,4,4,7\], expected \[2,4,4,8\]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(upstream: tuple[int, ...], kernel: tuple[int, ...], problem: str) -> None:
    images = tf.TensorShape([2, 8, 8, 8])
    with pytest.raises(tf.errors.InvalidArgumentError, match=problem):
        depthwise_convolution.to_images(images, tf.ones(kernel), tf.ones(upstream), 2, "SAME")


def test_layer_can_be_saved_with_its_network() -> None:
    images = layers.Input((8, 8, 4))
    model = keras.Model(images, DepthwiseConvolution2D(3, strides=2, use_bias=False)(images))
    assert isinstance(keras.models.clone_model(model).layers[-1], DepthwiseConvolution2D)
