"""Casts and means in compiled functions, which a reader of their inputs can leave out."""

import numpy as np
import tensorflow as tf


def undo(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return ``tensor`` as it was before its cast from ``dtype``, or as it is without such a cast."""
    if tensor.op.type == "Cast" and tensor.op.inputs[0].dtype == dtype:
        return tensor.op.inputs[0]
    return tensor


def undo_mean(tensor: tf.Tensor) -> list[tf.Tensor]:
    """Return the two tensors whose mean ``tensor`` is, computed as ``(one + other) * 0.5``, or it alone."""
    halved = tensor.op.type == "Mul" and np.array_equal(tf.get_static_value(tensor.op.inputs[1]), 0.5)
    if halved and (added := tensor.op.inputs[0].op).type == "AddV2":
        one, other = added.inputs
        return [one, other] if one.shape == other.shape else [tensor]
    return [tensor]


def sources(gradient: tf.Tensor) -> list[tf.Tensor]:
    """Return what an update of the weights reads instead of ``gradient``: before its cast, one or two tensors."""
    return undo_mean(undo(gradient, tf.bfloat16))
