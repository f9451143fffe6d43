"""Random crops and mirrored images for training, and the central crop for tests."""

import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data.decoding import decode_view


def shift_and_flip(batch: tf.Tensor, seeds: tf.Tensor, config: TrainConfig) -> tf.Tensor:
    """Crop padded images (n, h, w, c) at random, and mirror them at random (He et al. 2016, section 4.2)."""
    pad, positions = config.shift, 2 * config.shift + 1
    _, height, width, _ = batch.shape
    position, side = tf.unstack(seeds, axis=1)
    rows = (position % positions)[:, None] + tf.range(height)
    columns = tf.range(width)[None]
    if config.flip:
        columns = tf.where((side % 2 == 0)[:, None], columns, columns[:, ::-1])
    columns += (position // positions % positions)[:, None]
    padded = tf.pad(batch, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
    return tf.gather(tf.gather(padded, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)


def split_seed(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Derive two independent seeds from one."""
    first, second = tf.unstack(tf.random.split(seed, 2))
    return first, second


def random_view(content: tf.Tensor, size: int, seed: tf.Tensor, mirror: bool = True) -> tf.Tensor:
    """Crop at random, resize, mirror half of the time (Szegedy et al. 2015, section 6).

    Crops have 10 to 100 % of the area: the paper's begin at 8 %, but TensorFlow's operation rejects those that cover
    less than a tenth of the image.

    Args:
        content: Bytes of a JPEG or PNG file.
        size: Height and width of the view in pixels.
        seed: int32 (2).
        mirror: Whether to mirror any.

    Returns:
        The view, uint8 (size, size, 3).
    """
    crop, flip = split_seed(seed)

    def window(shape: tf.Tensor) -> tf.Tensor:
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.concat([shape, [3]], 0),
            tf.zeros([1, 0, 4]),
            crop,
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            use_image_if_no_bounding_boxes=True,
        )
        return tf.concat([begin[:2], extent[:2]], 0)

    view = decode_view(content, size, window)
    return tf.image.stateless_random_flip_left_right(view, flip) if mirror else view


def central_view(content: tf.Tensor, size: int, seed: tf.Tensor) -> tf.Tensor:
    """Crop the central square of 7/8 of the short side and resize it: 224 of 256 pixels, at any resolution.

    The arguments and the result are those of :func:`random_view`; the seed has no effect.
    """

    def window(shape: tf.Tensor) -> tf.Tensor:
        side = tf.maximum(1, tf.reduce_min(shape) * 7 // 8)
        return tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])

    return decode_view(content, size, window)
