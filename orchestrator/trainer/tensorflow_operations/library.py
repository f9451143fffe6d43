"""Library of the operations that this project adds to TensorFlow for CPUs."""

import functools
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

LIBRARY = Path(sys.prefix, "lib", f"orchestrator-tensorflow-{tf.__version__}.so")


@functools.cache
def load() -> Any:
    """Return the module of the operations; None on a GPU, or if the image has none for this TensorFlow."""
    if tf.config.get_visible_devices("GPU") or not LIBRARY.exists():
        return None
    return tf.load_op_library(str(LIBRARY))
