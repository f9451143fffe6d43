"""Library of the operations that this project adds to TensorFlow for CPUs."""

import functools
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

INTERFACE = 3  # a change of the operations' inputs or outputs needs another number here and in docker/
LIBRARY = Path(sys.prefix, "lib", f"orchestrator-tensorflow-{tf.__version__}-{INTERFACE}.so")


@functools.cache
def load() -> Any:
    """Return the module of the operations; None on a GPU, or if the image has none for this TensorFlow and checkout."""
    if tf.config.get_visible_devices("GPU") or not LIBRARY.exists():
        return None
    return tf.load_op_library(str(LIBRARY))
