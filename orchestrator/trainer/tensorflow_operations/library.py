"""Library of the operations that this project adds to TensorFlow for CPUs."""

import functools
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

INTERFACE = 8  # a change of the operations' inputs or outputs needs another number here and in docker/
DTYPES = (tf.float32, tf.bfloat16)  # in which the operations for layers compute
LIBRARY = Path(sys.prefix, "lib", f"orchestrator-tensorflow-{tf.__version__}-{INTERFACE}.so")


@functools.cache
def load() -> Any:
    """Return the module of the operations for a training step; None on a GPU, or if there is none."""
    return None if tf.config.get_visible_devices("GPU") else load_for_input()


@functools.cache
def load_for_input() -> Any:
    """Return the module for what CPUs compute beside a GPU, too; None if the image has none for this TensorFlow."""
    return tf.load_op_library(str(LIBRARY)) if LIBRARY.exists() else None
