"""The operation for SGD with momentum and decay compared with TensorFlow's operations."""

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import library, momentum

RATE, MOMENTUM, DECAY = (tf.constant(number) for number in (0.1, 0.9, 1e-4 / 9))
SHAPES = [(), (1,), (3, 5), (3, 3, 64, 65), (0, 4)]


def updated(
    shape: tuple[int, ...], kind: str, decay: "tf.Tensor | None", nesterov: bool = False, steps: int = 3
) -> list[np.ndarray]:
    """Return weights as read before the updates, weights and momenta after them."""
    random = np.random.default_rng(5)
    weights, accumulated, gradient = (random.normal(size=shape).astype(np.float32) for _ in range(3))
    variables = tf.Variable(weights), tf.Variable(accumulated)

    def run(gradient: tf.Tensor) -> list[tf.Tensor]:
        before = variables[0].read_value()
        for _ in range(steps):
            cast = tf.identity(tf.cast(gradient, tf.float32))
            momentum.update(*variables, cast, RATE, MOMENTUM, decay, nesterov)
        return [before, *(variable.read_value() for variable in variables)]

    return [tensor.numpy() for tensor in tf.function(run, autograph=False)(tf.cast(gradient, kind))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("decay", [None, DECAY])
def test_bits_are_those_of_tensorflows_operations(
    shape: tuple[int, ...], kind: str, decay: "tf.Tensor | None", monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library.load() is not None
    one_pass = updated(shape, kind, decay)
    monkeypatch.setattr(library, "load", lambda: None)
    for actual, expected in zip(one_pass, updated(shape, kind, decay), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_weights_that_were_read_before_stay_as_they_were() -> None:
    before, after, _ = updated((64,), "float32", DECAY)
    np.testing.assert_array_equal(before, np.random.default_rng(5).normal(size=64).astype(np.float32))
    assert not np.array_equal(before, after)


def test_nesterovs_rule_is_tensorflows(monkeypatch: pytest.MonkeyPatch) -> None:
    nesterov = updated((8,), "float32", None, nesterov=True)
    monkeypatch.setattr(library, "load", lambda: None)
    np.testing.assert_array_equal(nesterov, updated((8,), "float32", None, nesterov=True))


def test_gradient_of_another_shape_is_refused() -> None:
    weights, accumulated = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input 0 has shape \[2\], expected \[3\]"):
        momentum.update(weights, accumulated, tf.ones([3]), RATE, MOMENTUM, None, False)
