"""Network for tables: fully connected layers with ReLU.

Source: Glorot et al. 2011, "Deep Sparse Rectifier Neural Networks" (AISTATS).
"""

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.shared_layers import hidden, logits

UNITS = (64, 64)


def dense(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build two hidden layers of 64 units for rows (batch, 1, 1, features)."""
    x = layers.Flatten()(x)
    for units in UNITS:
        x = hidden(x, units)
    return logits(x, classes, keras.initializers.GlorotUniform())
