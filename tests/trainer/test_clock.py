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


def times(x: tf.Tensor) -> tf.Tensor:
    """Return the times before and after a pause, and one that needs no pause but is read last."""
    before = clock.read([x])
    with tf.control_dependencies([before]):
        late = tf.ensure_shape(tf.numpy_function(pause, [x], tf.float32), [3])
    after = clock.read([tf.cast(x, tf.bfloat16), late])
    return tf.stack([before, after, clock.read([x + 1.0])])


@pytest.fixture(params=[True, False])  # False: without the library, as on a GPU
def measured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[float, ...]:
    """Return the times, between that before and that after all of them."""
    tf.config.experimental.enable_op_determinism()
    if not request.param:
        monkeypatch.setattr(library, "load", lambda: None)
    function = tf.function(times, autograph=False)
    function(tf.ones([3]))
    started = time.perf_counter()
    return (started, *function(tf.ones([3])).numpy(), time.perf_counter())


def test_clock_is_read_in_each_call_when_its_inputs_are_computed(measured: tuple[float, ...]) -> None:
    started, first, last, _, ended = measured
    assert started <= first <= last - PAUSE
    assert last <= ended


def test_reading_waits_for_no_earlier_one(measured: tuple[float, ...]) -> None:
    _, _, late, early, _ = measured
    assert early <= late - PAUSE / 2
