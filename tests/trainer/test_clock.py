"""Clock in compiled functions."""

import time

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import clock, library

PAUSE = 0.05  # seconds


def pause(x: np.ndarray) -> np.ndarray:
    time.sleep(PAUSE)
    return x


def times() -> tf.Tensor:
    """Return the times before and after a pause."""
    before = clock.read([tf.ones([3])])
    with tf.control_dependencies([before]):
        late = tf.ensure_shape(tf.numpy_function(pause, [tf.ones([3])], tf.float32), [3])
    return tf.stack([before, clock.read([tf.ones([2], tf.bfloat16), late])])


@pytest.mark.parametrize("own", [True, False])  # False: without the library, as on a GPU
def test_clock_is_read_when_its_inputs_are_computed(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tf.config.experimental.enable_op_determinism()
    if not own:
        monkeypatch.setattr(library, "load", lambda: None)
    started = time.perf_counter()
    first, last = tf.function(times, autograph=False)().numpy()
    assert started <= first <= last - PAUSE
    assert last <= time.perf_counter()
