"""A network for tables: fully connected layers with ReLU.

Source: Glorot et al. 2011, "Deep Sparse Rectifier Neural Networks" (AISTATS).
"""

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.blocks import hidden, logits

UNITS = (64, 64)


def dense(x: tf.Tensor, image_size: int, classes: int) -> tf.Tensor:
    x = layers.Flatten()(x)
    for units in UNITS:
        x = hidden(x, units)
    return logits(x, classes, keras.initializers.GlorotUniform())
