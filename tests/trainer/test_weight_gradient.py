"""The operation for the gradient of a convolution's weights compared with TensorFlow's operation."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import weight_gradient

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
from tests.trainer import test_weight_gradient
print(hashlib.sha256(test_weight_gradient.of_random_numbers().tobytes()).hexdigest())
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


def of_random_numbers() -> np.ndarray:
    """Return a gradient of numbers whose sums depend on the order in which they are added."""
    x, dy = (tf.cast(np.random.default_rng(seed).normal(size=(16, 16, 16, 72)), tf.bfloat16) for seed in (1, 2))
    kernel = tf.TensorShape([3, 3, 72, 72])
    return np.asarray(weight_gradient.to_weights(kernel, x, dy, 1, "SAME"))


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
    actual = weight_gradient.to_weights(kernel, x, dy, stride, padding)
    np.testing.assert_array_equal(actual, tf.cast(exact, tf.bfloat16))


def test_no_images_have_no_gradient() -> None:
    x, dy = tf.zeros([0, 8, 8, 4], tf.bfloat16), tf.zeros([0, 8, 8, 6], tf.bfloat16)
    gradient = weight_gradient.to_weights(tf.TensorShape([3, 3, 4, 6]), x, dy, 1, "SAME")
    np.testing.assert_array_equal(gradient, tf.zeros([3, 3, 4, 6], tf.bfloat16))


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    digests = {subprocess.check_output([sys.executable, "-c", BITS, str(threads)]) for threads in (1, 2, 3)}
    assert len(digests) == 1


def test_nan_is_not_hidden() -> None:
    x, dy, kernel = operands((2, 5, 5, 5, 7, 3, 3, 1), "SAME")
    pixel = tf.one_hot(2, 7, on_value=np.nan, off_value=0.0) * tf.reshape(tf.one_hot(12, 25), [5, 5, 1])
    spoiled = dy + tf.cast(tf.where(tf.math.is_nan(pixel), np.nan, 0.0), tf.bfloat16)
    gradient = tf.cast(weight_gradient.to_weights(kernel, x, spoiled, 1, "SAME"), tf.float32).numpy()
    assert np.isnan(gradient[..., 2]).all()
    assert not np.isnan(np.delete(gradient, 2, axis=-1)).any()


def test_gradient_of_another_shape_is_refused() -> None:
    x, dy = tf.zeros([2, 8, 8, 4], tf.bfloat16), tf.zeros([2, 7, 8, 6], tf.bfloat16)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"dy has shape \[2,7,8,6\], expected \[2,8,8,6\]"):
        weight_gradient.to_weights(tf.TensorShape([3, 3, 4, 6]), x, dy, 1, "SAME")


def test_shape_is_known_when_a_function_is_traced() -> None:
    signature = [tf.TensorSpec([None, 8, 8, 4], tf.bfloat16), tf.TensorSpec([None, 8, 8, 6], tf.bfloat16)]
    traced = tf.function(lambda x, dy: weight_gradient.to_weights(tf.TensorShape([3, 3, 4, 6]), x, dy, 1, "SAME"))
    assert traced.get_concrete_function(*signature).output_shapes == tf.TensorShape([3, 3, 4, 6])
