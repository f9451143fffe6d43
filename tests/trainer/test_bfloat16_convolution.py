"""The operations for convolutions in bfloat16 compared with TensorFlow's operations."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import bfloat16_convolution

# images, rows, columns, channels, filters, height and width of the kernel, stride
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1, 1),
    (2, 5, 5, 5, 7, 3, 3, 1),
    (3, 7, 9, 8, 32, 3, 3, 2),
    (32, 4, 4, 24, 33, 3, 3, 1),  # several images in a block
    (5, 40, 36, 9, 16, 5, 3, 1),  # several blocks in an image, and several groups of images
    (33, 16, 16, 16, 48, 3, 3, 1),  # groups of unequal size
    (4, 17, 15, 200, 10, 1, 7, 1),  # several ranges of channels
    (2, 6, 600, 3, 4, 3, 3, 1),  # a row is longer than a block
    (2, 9, 9, 12, 64, 1, 1, 2),
    (2, 9, 9, 3, 64, 7, 7, 2),
    (2, 2, 2, 4, 4, 2, 2, 3),
]
BITS = """
import hashlib, sys
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
from tests.trainer import test_bfloat16_convolution
print([hashlib.sha256(a.tobytes()).hexdigest() for a in test_bfloat16_convolution.of_random_numbers()])
"""


def results(pixels: int, kernel: int, stride: int, padding: str) -> int:
    """Return the length of the result of a convolution along one axis."""
    return -(-pixels // stride) if padding == "SAME" else max(0, -(-(pixels - kernel + 1) // stride))


def operands(shape: tuple[int, ...], padding: str) -> tuple[tf.Tensor, tf.Tensor, tf.TensorShape]:
    """Return images and gradients of small integers, whose sums float32 holds exactly, and the shape of the weights."""
    images, rows, columns, channels, filters, height, width, stride = shape
    grid = [results(rows, height, stride, padding), results(columns, width, stride, padding)]
    random = np.random.default_rng(11)
    sizes = [images, rows, columns, channels], [images, *grid, filters]
    x, dy = (tf.cast(random.integers(-3, 4, size), tf.bfloat16) for size in sizes)
    return x, dy, tf.TensorShape([height, width, channels, filters])


def of_random_numbers() -> list[np.ndarray]:
    """Return the three products of a convolution of numbers whose sums depend on the order in which they are added."""
    x, dy = (tf.cast(np.random.default_rng(seed).normal(size=(16, 16, 16, 72)), tf.bfloat16) for seed in (1, 2))
    kernel = tf.cast(np.random.default_rng(3).normal(size=(3, 3, 72, 72)), tf.bfloat16)
    return [
        np.asarray(bfloat16_convolution.forward(x, kernel, 1, "SAME")),
        np.asarray(bfloat16_convolution.to_inputs(x.shape, kernel, dy, 1, "SAME")),
        np.asarray(bfloat16_convolution.to_weights(kernel.shape, x, dy, 1, "SAME")),
    ]


def weights(shape: tf.TensorShape) -> tf.Tensor:
    return tf.cast(np.random.default_rng(12).integers(-3, 4, shape), tf.bfloat16)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_the_exact_one_rounded(shape: tuple[int, ...], padding: str) -> None:
    x, dy, kernel = operands(shape, padding)
    stride = shape[-1]
    wide = {"input": tf.cast(x, tf.float32), "out_backprop": tf.cast(dy, tf.float32)}
    if dy.shape.num_elements():
        strides = [1, stride, stride, 1]
        exact = tf.raw_ops.Conv2DBackpropFilter(**wide, filter_sizes=kernel, strides=strides, padding=padding)
    else:
        exact = tf.zeros(kernel)
    actual = bfloat16_convolution.to_weights(kernel, x, dy, stride, padding)
    np.testing.assert_array_equal(actual, tf.cast(exact, tf.bfloat16))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[3] % 2 == 0])
def test_result_is_the_exact_one_rounded(shape: tuple[int, ...], padding: str) -> None:
    x, dy, kernel = operands(shape, padding)
    factor, stride = weights(kernel), shape[-1]
    actual = bfloat16_convolution.forward(x, factor, stride, padding)
    assert actual.shape == dy.shape
    if dy.shape.num_elements():
        exact = tf.nn.conv2d(tf.cast(x, tf.float32), tf.cast(factor, tf.float32), stride, padding)
        np.testing.assert_array_equal(actual, tf.cast(exact, tf.bfloat16))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[4] % 2 == 0])
def test_gradient_of_images_is_the_exact_one_rounded(shape: tuple[int, ...], padding: str) -> None:
    x, dy, kernel = operands(shape, padding)
    factor, stride = weights(kernel), shape[-1]
    actual = bfloat16_convolution.to_inputs(x.shape, factor, dy, stride, padding)
    if dy.shape.num_elements():
        wide = {"filter": tf.cast(factor, tf.float32), "out_backprop": tf.cast(dy, tf.float32)}
        strides = [1, stride, stride, 1]
        exact = tf.raw_ops.Conv2DBackpropInput(**wide, input_sizes=x.shape, strides=strides, padding=padding)
    else:
        exact = tf.zeros(x.shape)
    np.testing.assert_array_equal(actual, tf.cast(exact, tf.bfloat16))


def test_no_images_have_no_gradient() -> None:
    x, dy = tf.zeros([0, 8, 8, 4], tf.bfloat16), tf.zeros([0, 8, 8, 6], tf.bfloat16)
    gradient = bfloat16_convolution.to_weights(tf.TensorShape([3, 3, 4, 6]), x, dy, 1, "SAME")
    np.testing.assert_array_equal(gradient, tf.zeros([3, 3, 4, 6], tf.bfloat16))


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    digests = {subprocess.check_output([sys.executable, "-c", BITS, str(threads)]) for threads in (1, 2, 3)}
    assert len(digests) == 1


def test_nan_is_not_hidden() -> None:
    x, dy, kernel = operands((2, 5, 5, 5, 7, 3, 3, 1), "SAME")
    pixel = tf.one_hot(2, 7, on_value=np.nan, off_value=0.0) * tf.reshape(tf.one_hot(12, 25), [5, 5, 1])
    spoiled = dy + tf.cast(tf.where(tf.math.is_nan(pixel), np.nan, 0.0), tf.bfloat16)
    gradient = tf.cast(bfloat16_convolution.to_weights(kernel, x, spoiled, 1, "SAME"), tf.float32).numpy()
    assert np.isnan(gradient[..., 2]).all()
    assert not np.isnan(np.delete(gradient, 2, axis=-1)).any()


def test_gradient_of_another_shape_is_refused() -> None:
    x, dy = tf.zeros([2, 8, 8, 4], tf.bfloat16), tf.zeros([2, 7, 8, 6], tf.bfloat16)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"dy has shape \[2,7,8,6\], expected \[2,8,8,6\]"):
        bfloat16_convolution.to_weights(tf.TensorShape([3, 3, 4, 6]), x, dy, 1, "SAME")


def test_images_that_do_not_fit_are_refused() -> None:
    kernel = tf.zeros([3, 3, 4, 6], tf.bfloat16)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \[2,8,8,3\], expected \[2,8,8,4\]"):
        bfloat16_convolution.forward(tf.zeros([2, 8, 8, 3], tf.bfloat16), kernel, 1, "SAME")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \[2,8,8,6\], expected \[2,4,4,6\]"):
        bfloat16_convolution.to_inputs([2, 8, 8, 4], kernel, tf.zeros([2, 8, 8, 6], tf.bfloat16), 2, "SAME")
    odd = tf.zeros([3, 3, 5, 6], tf.bfloat16)
    with pytest.raises(tf.errors.InvalidArgumentError, match="an even number of channels"):
        bfloat16_convolution.forward(tf.zeros([2, 8, 8, 5], tf.bfloat16), odd, 1, "SAME")


def test_shape_of_a_result_is_known_when_a_function_is_traced() -> None:
    signature = [tf.TensorSpec([None, 9, 8, 4], tf.bfloat16), tf.TensorSpec([3, 3, 4, 6], tf.bfloat16)]
    for padding, grid in (("SAME", [5, 4]), ("VALID", [4, 3])):
        traced = tf.function(lambda x, kernel, padding=padding: bfloat16_convolution.forward(x, kernel, 2, padding))
        assert traced.get_concrete_function(*signature).output_shapes == tf.TensorShape([None, *grid, 6])


def test_shape_is_known_when_a_function_is_traced() -> None:
    signature = [tf.TensorSpec([None, 8, 8, 4], tf.bfloat16), tf.TensorSpec([None, 8, 8, 6], tf.bfloat16)]
    traced = tf.function(lambda x, dy: bfloat16_convolution.to_weights(tf.TensorShape([3, 3, 4, 6]), x, dy, 1, "SAME"))
    assert traced.get_concrete_function(*signature).output_shapes == tf.TensorShape([3, 3, 4, 6])
