"""What tests with TensorFlow share. They run inside the node image: see contract/test_trainer_in_image.py."""

import os
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import pytest
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(2)


@pytest.fixture(autouse=True)
def forget_models() -> Iterator[None]:
    """Each test with Keras' names, precision and graphs as at the start of a program."""
    yield
    keras.mixed_precision.set_dtype_policy("float32")
    keras.backend.clear_session()
