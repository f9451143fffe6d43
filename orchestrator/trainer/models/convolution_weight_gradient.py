"""TensorFlow's kernel for the gradient of a convolution's weights, on images that are wide enough for it.

With AMX, oneDNN 3.7 (brgconv_bwd_w) multiplies blocks of columns of a copy of the images in 16 bits. For some widths a
block ends after the copy, and what memory holds there is multiplied by zeros: harmless unless it is infinite or not a
number, as one of 256 arbitrary numbers is. The gradient then is not a number now and then, in equal runs as well.
Columns of zeros on the right change the blocks, and not the gradient.
"""

import itertools

import tensorflow as tf

BLOCK, PAIR = 32, 2  # columns of a tile register, and columns that are multiplied at once in 16 bits
BYTES = 2  # of a number in 16 bits


def to_weights(kernel: tf.TensorShape, x: tf.Tensor, upstream: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Compute the gradient of a kernel of this shape from that of the result."""
    spare = spare_columns(x.shape[2], upstream.shape[2], kernel[1], stride) if x.dtype.size == BYTES else 0
    if spare:
        x, upstream = _widened(x, stride * spare), _widened(upstream, spare)
    return tf.raw_ops.Conv2DBackpropFilter(
        input=x, filter_sizes=kernel, out_backprop=upstream, strides=[1, stride, stride, 1], padding=padding
    )


def spare_columns(columns: int, results: int, width: int, stride: int) -> int:
    """Return how many columns of zeros the result needs, so that the kernel reads nothing but its copy of the images.

    Args:
        columns: Width of the images in pixels.
        results: Width of the result in pixels.
        width: Width of the convolution's kernel in pixels.
        stride: Of the convolution.

    Returns:
        Columns of the result; images need ``stride`` times as many.
    """
    return next(n for n in itertools.count() if not _reads_past(columns + stride * n, results + n, width, stride))


def _reads_past(columns: int, results: int, width: int, stride: int) -> bool:
    padded = max(columns, (results - 1) * stride + width)
    copied = _up(-(-padded // stride), BLOCK)
    return _in_blocks(results) + (width - 1) // stride > copied


def _in_blocks(results: int) -> int:
    """Return the columns of all blocks: as few blocks as possible, of equal width."""
    pairs = _up(results, PAIR)
    return min(range(pairs, _up(pairs, BLOCK) + 1, PAIR), key=_blocks)


def _blocks(columns: int) -> int:
    return columns // next(size for size in range(BLOCK, 0, -PAIR) if columns % size == 0)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _widened(images: tf.Tensor, columns: int) -> tf.Tensor:
    return tf.pad(images, [[0, 0], [0, 0], [0, columns], [0, 0]])
