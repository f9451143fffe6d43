"""Decode the bytes of an image file: the whole image, or a window of it resized to uint8 (size, size, 3)."""

from collections.abc import Callable

import tensorflow as tf

from orchestrator.trainer.data.image_files import JPEG_START, MAX_PIXELS
from orchestrator.trainer.tensorflow_operations import image_resize

PNG_SHAPE = (16, 8)  # offset and length of width and height, big-endian
Window = Callable[[tf.Tensor], tf.Tensor]  # from height and width to top, left, height and width


def decode_view(content: tf.Tensor, size: int, window: Window) -> tf.Tensor:
    """Return the pixels in ``window``, resized; of a JPEG, only these are decoded."""
    return image_resize.resize(_decode(content, window), size)


def whole(content: tf.Tensor, *_: object) -> tf.Tensor:
    """Decode a whole image to uint8 (height, width, 3).

    Raises:
        InvalidArgumentError: It cannot be decoded.
    """
    return _decode(content, lambda shape: tf.concat([[0, 0], shape], 0))


def _decode(content: tf.Tensor, window: Window) -> tf.Tensor:
    is_jpeg = tf.strings.substr(content, 0, len(JPEG_START)) == JPEG_START
    return tf.cond(is_jpeg, lambda: _decode_jpeg(content, window), lambda: _decode_png(content, window))


def _decode_jpeg(content: tf.Tensor, window: Window) -> tf.Tensor:
    shape = _require_pixel_limit(tf.image.extract_jpeg_shape(content)[:2])
    return tf.image.decode_and_crop_jpeg(content, window(shape), channels=3)


def _require_pixel_limit(shape: tf.Tensor) -> tf.Tensor:
    """Return ``shape``, int32 (height, width), unchanged; InvalidArgumentError if it has more than MAX_PIXELS.

    The error comes from parsing a text that is not a number, an operation without state: a map with
    `tf.debugging.assert_less` has no threads in deterministic programs.
    """
    size = tf.strings.as_string(shape)
    words = tf.strings.join([size[1], "x", size[0], f" pixels, at most {MAX_PIXELS:,} are decoded"])
    few = tf.reduce_prod(tf.cast(shape, tf.int64)) <= MAX_PIXELS
    return shape + tf.strings.to_number(tf.where(few, "0", words), tf.int32)


def _decode_png(content: tf.Tensor, window: Window) -> tf.Tensor:
    shape = tf.io.decode_raw(tf.strings.substr(content, *PNG_SHAPE), tf.int32, little_endian=False)[::-1]
    with tf.control_dependencies([_require_pixel_limit(tf.reshape(shape, [2]))]):
        image = tf.image.decode_png(content, channels=3)
    top, left, height, width = tf.unstack(window(tf.shape(image)[:2]))
    return image[top : top + height, left : left + width]
