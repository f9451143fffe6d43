"""Batch normalization with the mean and variance of the batches of all ranks, for Keras 3."""

from typing import Any

import keras
import tensorflow as tf
from horovod.tensorflow.mpi_ops import Sum, _allreduce, size


@keras.saving.register_keras_serializable(package="horovod")
class SyncBatchNormalization(keras.layers.BatchNormalization):
    """Normalize by the mean and variance of the batches of all ranks, which have to be of the same size."""

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        super().__init__(**kwargs)
        self.supports_jit = False  # XLA cannot compile Horovod's allreduce

    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        own = super()._moments(inputs, mask)
        if size() == 1:
            return own
        # 64 bits: in 32, E[x²] of a mean of some thousands has no digits left for the variance.
        mean, variance = (tf.cast(moment, tf.float64) for moment in own)
        stacked = tf.stack([mean, variance + tf.square(mean)])  # E[x], E[x²]
        mean, mean_of_squares = tf.unstack(_allreduce(stacked, op=Sum) / size())
        variance = tf.maximum(mean_of_squares - tf.square(mean), 0)
        return tf.cast(mean, own[0].dtype), tf.cast(variance, own[1].dtype)
