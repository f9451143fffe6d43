"""Accumulation of gradients: several backward passes per update, averaged on the rank that computes them."""

from collections.abc import Callable

import tensorflow as tf

# (images, labels) of a batch -> the gradients of its mean loss, and sums over it
Backward = Callable[[tf.Tensor, tf.Tensor], tuple[list[tf.Tensor], tf.Tensor]]


def mean_gradients(
    backward: Backward, passes: int, variables: list[tf.Variable], images: tf.Tensor, labels: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Average gradients over several passes. For compiled functions.

    Parts run one after the other, so that memory holds the activations of one part; the loop is traced once, whatever
    the number of passes.

    Args:
        backward: Computes gradients and sums of one part.
        passes: Number of parts of equal size.
        variables: Variables of the gradients.
        images: Images of all parts.
        labels: Labels of all parts.

    Returns:
        Means of the gradients, and the sums of scores, float32 (4).
    """
    if passes == 1:
        return backward(images, labels)
    parts = [tf.reshape(whole, [passes, -1, *whole.shape[1:]]) for whole in (images, labels)]

    def more(number: tf.Tensor, gradients: list[tf.Tensor], sums: tf.Tensor) -> "tuple[object, ...]":
        part_gradients, part_sums = backward(*(tf.gather(part, number) for part in parts))
        return number + 1, [a + b for a, b in zip(gradients, part_gradients, strict=True)], sums + part_sums

    nothing = tf.constant(0), [tf.zeros(v.shape, v.dtype) for v in variables], tf.zeros([4])
    _, gradients, sums = tf.while_loop(lambda number, *_: number < passes, more, nothing, parallel_iterations=1)
    return [gradient / passes for gradient in gradients], sums
