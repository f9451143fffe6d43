"""Optimizers compared with the formulas of their papers."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.optim import optimizers
from tests import samples

RATE, GRADIENT = 0.1, 2.0


def moved(steps: int = 1, shape: tuple[int, ...] = (), **changes: object) -> float:
    """Return how far a weight with a constant gradient moves from 1."""
    weight = keras.Variable(np.ones(shape), dtype="float32")
    optimizer = optimizers.build(samples.train_config(**changes))
    optimizer.build([weight])
    optimizer.learning_rate = RATE
    for _ in range(steps):
        optimizer.apply([GRADIENT * tf.ones(shape)], [weight])
    return 1.0 - float(np.mean(weight.numpy()))


def test_sgd_momentum_and_nesterov() -> None:
    assert moved(2, momentum=0.5) == pytest.approx(RATE * GRADIENT * (1 + 1.5), rel=1e-5)
    assert moved(1, momentum=0.5, nesterov=True) == pytest.approx(RATE * GRADIENT * 1.5, rel=1e-5)


def test_rmsprop_adds_epsilon_inside_the_root() -> None:
    expected = RATE * GRADIENT / (0.1 * GRADIENT**2 + 1.0) ** 0.5
    assert moved(optimizer="rmsprop", rho=0.9, epsilon=1.0, momentum=0.0) == pytest.approx(expected, rel=1e-5)


def test_first_step_of_adam_is_the_learning_rate() -> None:
    """Kingma and Ba 2015, section 2.1."""
    assert moved(optimizer="adam", rho=0.999, epsilon=1e-8) == pytest.approx(RATE, rel=1e-4)


@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop", "adam"])
def test_gradients_are_clipped_to_the_norm(optimizer: str) -> None:
    settings: dict[str, Any] = {"optimizer": optimizer, "epsilon": 1.0, "momentum": 0.0}
    clipped, whole = moved(clip_norm=GRADIENT / 4, **settings), moved(**settings)
    assert 0 < clipped < whole
    assert moved(clip_norm=GRADIENT * 4, **settings) == pytest.approx(whole)


def test_loss_is_scaled_for_float16_only() -> None:
    optimizer = optimizers.build(samples.train_config(precision="float16"))
    assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def test_decay_via_momentum_equals_decay_of_the_gradient() -> None:
    """Decay is added to the gradient if gradients are clipped, here far above their norm."""
    settings: dict[str, Any] = {"momentum": 0.9, "weight_decay": 0.1}
    moves = [moved(5, shape=(1, 1), **settings, clip_norm=clip_norm) for clip_norm in (None, GRADIENT * 1000)]
    assert moves[0] == pytest.approx(moves[1], rel=1e-5)
    assert moves[0] > moved(5, shape=(1, 1), momentum=0.9) * 1.01
    assert moved(5, **settings) == pytest.approx(moved(5, momentum=0.9))  # no matrix: no decay


def test_decay_in_the_update_of_rmsprop_equals_decay_of_the_gradient() -> None:
    settings: dict[str, Any] = {"optimizer": "rmsprop", "momentum": 0.0, "epsilon": 1.0, "weight_decay": 0.1}
    moves = [moved(5, shape=(1, 1), **settings, clip_norm=clip_norm) for clip_norm in (None, GRADIENT * 1000)]
    assert moves[0] == pytest.approx(moves[1], rel=1e-5)
    assert moves[0] > moved(5, shape=(1, 1), **{**settings, "weight_decay": 0.0}) * 1.01


@pytest.mark.parametrize("shape", [(8,), (64, 64), (300, 300)])
@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ({"optimizer": "adam", "momentum": 0.8, "rho": 0.99}, keras.optimizers.Adam(0.0, 0.8, 0.99, 1e-3)),
        ({"optimizer": "rmsprop", "momentum": 0.8, "rho": 0.99}, keras.optimizers.RMSprop(0.0, 0.99, 0.8, 1e-3)),
        ({"optimizer": "rmsprop", "momentum": 0.0, "rho": 0.99}, keras.optimizers.RMSprop(0.0, 0.99, 0.0, 1e-3)),
    ],
)
def test_weights_equal_those_of_keras(
    settings: dict[str, Any], reference: keras.optimizers.Optimizer, shape: tuple[int, ...]
) -> None:
    ours = optimizers.build(samples.train_config(**settings, epsilon=1e-3, weight_decay=0.0))
    weights = []
    for optimizer in (ours, type(reference).from_config(reference.get_config())):
        weight, draws = keras.Variable(np.ones(shape, np.float32)), np.random.default_rng(1)
        optimizer.build([weight])
        for step in range(1, 6):
            optimizer.learning_rate = RATE / step
            optimizer.apply([tf.constant(draws.normal(size=shape), tf.float32)], [weight])
        weights.append(weight.numpy())
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5, atol=1e-5)
    assert np.abs(weights[0] - 1.0).max() > RATE
