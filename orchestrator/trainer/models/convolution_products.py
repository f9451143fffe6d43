"""The three products of a convolution as products of matrices, for where these are faster than TensorFlow's kernels.

TensorFlow's CPU kernels (oneDNN 3.7) compute some of them at a fraction of the speed of a product of the same size:
gradients of weights, above all in bfloat16 with AMX, and everything on grids of 4x4.
docs/performance-explained.md has figures.
"""

import tensorflow as tf

SHIFTS_BYTES = 64 << 20  # bytes of three shifts of the images that are multiplied together


def forward(x: tf.Tensor, kernel: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Convolve images (batch, height, width, channels)."""
    height, width, channels, filters = kernel.shape
    rows, grid = patches(x, (height, width), stride, padding)
    product = tf.matmul(rows, tf.reshape(kernel, [height * width * channels, filters]))
    return tf.reshape(product, [-1, *grid, filters])


def to_inputs(shape: tf.TensorShape, kernel: tf.Tensor, upstream: tf.Tensor, stride: int) -> tf.Tensor:
    """Compute the gradient of images of ``shape`` from that of the result, for a kernel of 1x1."""
    _, rows, columns, channels = shape
    matrix = tf.reshape(kernel, kernel.shape[2:])
    product = tf.matmul(tf.reshape(upstream, [-1, upstream.shape[-1]]), matrix, transpose_b=True)
    pixels = tf.reshape(product, [-1, *upstream.shape[1:3], channels])
    if stride == 1:
        return pixels
    apart = tf.pad(pixels[:, :, None, :, None], [[0, 0], [0, 0], [0, stride - 1], [0, 0], [0, stride - 1], [0, 0]])
    grid = [stride * length for length in upstream.shape[1:3]]
    return tf.reshape(apart, [-1, *grid, channels])[:, :rows, :columns]


def to_weights(kernel: tf.TensorShape, x: tf.Tensor, upstream: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """Compute the gradient of a kernel of this shape from that of the result."""
    rows, _ = patches(x, (kernel[0], kernel[1]), stride, padding)
    return tf.reshape(tf.matmul(rows, tf.reshape(upstream, [-1, kernel[-1]]), transpose_a=True), kernel)


def patches(x: tf.Tensor, size: tuple[int, int], stride: int, padding: str) -> tuple[tf.Tensor, list[int]]:
    """Return the inputs of each pixel of the result, (pixels of the batch, height * width * channels), and its grid."""
    (height, width), channels = size, x.shape[-1]
    if stride == 1:
        extracted = x if size == (1, 1) else _slices(x, height, width, padding)
    elif size == (1, 1):
        # TensorFlow has a fast kernel for pooling, but none for slices with a stride.
        extracted = tf.nn.max_pool2d(x, 1, stride, "VALID")
    else:
        extracted = tf.image.extract_patches(x, [1, height, width, 1], [1, stride, stride, 1], [1, 1, 1, 1], padding)
    return tf.reshape(extracted, [-1, height * width * channels]), list(extracted.shape[1:3])


def _slices(x: tf.Tensor, height: int, width: int, padding: str) -> tf.Tensor:
    """Put the inputs of each pixel side by side: a third of the time of ``extract_patches`` in 16 bits."""
    if padding == "SAME":
        around = [[(length - 1) // 2, length // 2] for length in (height, width)]
        x = tf.pad(x, [[0, 0], *around, [0, 0]])
    rows, columns = x.shape[1] - height + 1, x.shape[2] - width + 1
    parts = [x[:, row : row + rows, column : column + columns] for row in range(height) for column in range(width)]
    return tf.concat(parts, -1)


def by_shifts(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
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
