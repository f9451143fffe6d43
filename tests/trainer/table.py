"""A small table with one row that may be damaged, and a network with batch normalisation for it."""

import keras
import numpy as np
import tensorflow as tf

from orchestrator.trainer.data.batches import Split

ROWS, BAD = 24, 5


def normalised() -> keras.Model:
    keras.utils.set_random_seed(3)
    inside = [keras.layers.Flatten(), keras.layers.Dense(8), keras.layers.BatchNormalization()]
    return keras.Sequential([keras.Input((1, 1, 6)), *inside, keras.layers.Dense(3)])


def rows(bad: float) -> Split:
    """Return 24 rows, one of which has this value."""
    random = np.random.default_rng(1)
    features, labels = random.normal(size=(ROWS, 1, 1, 6)).astype(np.float32), random.integers(0, 3, ROWS)
    features[BAD, 0, 0, 2] = bad
    return Split(ROWS, lambda index, _: (tf.gather(features, index), tf.gather(labels, index)), 1)
