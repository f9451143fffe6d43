"""Resizing of images in 8 bits: one operation if possible (docker/tensorflow_operations/resize.cc), the same bits."""

import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import library


def resize(image: tf.Tensor, size: int) -> tf.Tensor:
    """Resize uint8 (height, width, 3) bilinearly to (size, size, 3), rounded to the nearest number.

    TensorFlow's operations get float pixels because their resizing of these is vectorised. They stay between 0 and 255,
    so adding 0.5 before the cast, which truncates, rounds them.
    """
    if operations := library.load_for_input():
        return operations.orchestrator_resize(image=image, size=size)
    return tf.cast(tf.image.resize(tf.cast(image, tf.float32), [size, size]) + 0.5, tf.uint8)
