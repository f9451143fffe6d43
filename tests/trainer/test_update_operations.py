"""The operations that update weights compared with TensorFlow's operations."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.comm import exchange
from orchestrator.trainer.tensorflow_operations import casts, library, update

RATE, MOMENTUM, DECAY = (tf.constant(number) for number in (0.1, 0.9, 1e-4 / 9))
SHAPES = [(), (1,), (3, 5), (3, 3, 64, 65), (0, 4)]


Combine = Callable[..., tf.Tensor]  # (this rank's gradient, another rank's) -> gradient


def updated(
    shape: tuple[int, ...],
    kind: str,
    decay: "tf.Tensor | None",
    nesterov: bool = False,
    steps: int = 3,
    combine: Combine = lambda one, _: one,
) -> list[np.ndarray]:
    """Return weights as read before the updates, weights and momenta after them."""
    random = np.random.default_rng(5)
    weights, accumulated, *gradients = (random.normal(size=shape).astype(np.float32) for _ in range(4))
    variables = tf.Variable(weights), tf.Variable(accumulated)

    def run(*gradients: tf.Tensor) -> list[tf.Tensor]:
        before = variables[0].read_value()
        for _ in range(steps):
            cast = tf.identity(tf.cast(combine(*gradients), tf.float32))
            update.momentum(*variables, cast, RATE, MOMENTUM, decay, nesterov)
        return [before, *(variable.read_value() for variable in variables)]

    compiled = tf.function(run, autograph=False)
    return [tensor.numpy() for tensor in compiled(*(tf.cast(gradient, kind) for gradient in gradients))]


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


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("decay", [None, DECAY])
def test_means_of_two_have_the_same_bits(
    shape: tuple[int, ...], kind: str, decay: "tf.Tensor | None", monkeypatch: pytest.MonkeyPatch
) -> None:
    one_pass = updated(shape, kind, decay, combine=lambda *pair: exchange.mean(pair, 1.0))
    monkeypatch.setattr(library, "load", lambda: None)
    for actual, expected in zip(
        one_pass, updated(shape, kind, decay, combine=lambda *pair: exchange.mean(pair, 1.0)), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


def undone(combine: Combine, kind: str = "bfloat16", other: tuple[int, ...] = (4,)) -> int:
    """Return of how many tensors a combination of two is the mean, as ``undo_mean`` has it."""
    numbers: list[int] = []
    specs = [tf.TensorSpec(shape, kind) for shape in ((4,), other)]
    tf.function(lambda *pair: numbers.append(len(casts.undo_mean(combine(*pair)))), specs).get_concrete_function()
    return numbers[0]


@pytest.mark.parametrize(
    ("tensors", "combine"),
    [
        (2, lambda *pair: exchange.mean(pair, 1.0)),
        (1, lambda *pair: exchange.mean(pair, 2.0)),
        (1, lambda one, other: (one + other) * 0.25),
        (1, lambda one, other: (one - other) * 0.5),
        (1, lambda one, _: one * 0.5),
        (1, lambda one, other: (one + other) * tf.constant([0.5] * 4, one.dtype)),
        (1, lambda one, other: one + other),
    ],
)
def test_only_means_are_read_as_two(tensors: int, combine: Combine) -> None:
    assert undone(combine) == tensors


def test_sums_of_two_shapes_are_not_read_as_two() -> None:
    assert undone(lambda one, other: (one + other) * 0.5, other=(1,)) == 1


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
        update.momentum(weights, accumulated, tf.ones([3]), RATE, MOMENTUM, None, False)


def test_gradients_of_two_shapes_are_refused() -> None:
    pair = {"var": tf.Variable([1.0, 2.0]).handle, "accum": tf.Variable([0.0, 0.0]).handle}
    numbers = {"rate": RATE, "decay": RATE, "share": MOMENTUM, "epsilon": 0.0, "decays": False}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shapes \[2\] and \[1\], expected the same"):
        library.load().orchestrator_momentum(**pair, grads=[tf.ones([2]), tf.ones([1])], **numbers)
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 gradients"):
        library.load().orchestrator_momentum(**pair, grads=[tf.ones([2])] * 3, **numbers)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("decay", [None, DECAY])
def test_rmsprop_divides_the_mean_of_two_by_the_root_of_its_squares(
    shape: tuple[int, ...], kind: str, decay: "tf.Tensor | None"
) -> None:
    """Tieleman and Hinton 2012, lecture 6.5 of "Neural Networks for Machine Learning"."""
    random = np.random.default_rng(6)
    weights, squares, *pair = (random.normal(size=shape).astype(np.float32) for _ in range(4))
    squares, pair = squares**2, [tf.cast(gradient, kind) for gradient in pair]
    variables = tf.Variable(weights), tf.Variable(squares)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def run(*gradients: tf.Tensor) -> None:
        update.rmsprop(*variables, tf.cast(exchange.mean(gradients, 1.0), tf.float32), RATE, MOMENTUM, decay, 0.5)

    run(*pair)
    mean = np.float32(tf.cast(exchange.mean(pair, 1.0), tf.float32)) + weights * (0 if decay is None else decay.numpy())
    squares = MOMENTUM.numpy() * squares + (1 - MOMENTUM.numpy()) * mean**2
    np.testing.assert_allclose(variables[1], squares, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        variables[0], weights - RATE.numpy() * mean / np.sqrt(squares + 0.5), rtol=1e-5, atol=1e-6
    )
