"""From the bytes of an image file to a view of it: float pixels from 0 to 255, (size, size, 3)."""

import tensorflow as tf

from orchestrator.trainer.data.imagenet import JPEG_START


def split_seed(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Two seeds out of one: what is drawn from the one says nothing about what is drawn from the other."""
    first, second = tf.unstack(tf.random.split(seed, 2))
    return first, second


def random_view(content: tf.Tensor, size: int, seed: tf.Tensor) -> tf.Tensor:
    """A random crop of 8 to 100 % of the area, resized, mirrored half of the time (Szegedy et al. 2015, section 6)."""
    crop, flip = split_seed(seed)
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.concat([_shape(content), [3]], 0),
        tf.zeros([1, 0, 4]),
        crop,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
    image = tf.image.resize(_window(content, window), [size, size])
    return tf.image.stateless_random_flip_left_right(image, flip)


def central_view(content: tf.Tensor, size: int, seed: tf.Tensor) -> tf.Tensor:
    """The central square of 7/8 of the short side, resized: 224 of 256 pixels, at any resolution."""
    shape = _shape(content)
    side = tf.maximum(1, tf.reduce_min(shape) * 7 // 8)
    window = tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])
    return tf.image.resize(_window(content, window), [size, size])


def whole(content: tf.Tensor) -> tf.Tensor:
    """All of an image, uint8 (height, width, 3). Raises InvalidArgumentError where it cannot be decoded."""
    return tf.cond(_is_jpeg(content), lambda: tf.image.decode_jpeg(content, channels=3), lambda: _png(content))


def _is_jpeg(content: tf.Tensor) -> tf.Tensor:
    return tf.strings.substr(content, 0, len(JPEG_START)) == JPEG_START


def _shape(content: tf.Tensor) -> tf.Tensor:
    """Height and width."""
    return tf.cond(
        _is_jpeg(content), lambda: tf.image.extract_jpeg_shape(content)[:2], lambda: tf.shape(_png(content))[:2]
    )


def _window(content: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """The pixels of ``window`` (top, left, height, width); of a JPEG, only these are decoded."""
    top, left, height, width = tf.unstack(window)
    return tf.cond(
        _is_jpeg(content),
        lambda: tf.image.decode_and_crop_jpeg(content, window, channels=3),
        lambda: _png(content)[top : top + height, left : left + width],
    )


def _png(content: tf.Tensor) -> tf.Tensor:
    return tf.image.decode_png(content, channels=3)
