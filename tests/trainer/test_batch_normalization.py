"""Our fused batch normalisation against Keras' own layer."""

from dataclasses import dataclass

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.models import FusedBatchNormalization

SHAPE = (8, 5, 5, 6)
ARGUMENTS = {"momentum": 0.9, "epsilon": 1e-5}


@dataclass
class Step:
    """What a training step gave: outputs, gradients of input, gamma and beta, and the statistics after it."""

    outputs: np.ndarray
    gradients: list[np.ndarray]
    mean: np.ndarray
    variance: np.ndarray


def layer(kind: type[keras.layers.BatchNormalization]) -> keras.layers.BatchNormalization:
    """A layer whose weights and statistics are no longer those it starts with."""
    made = kind(**ARGUMENTS)
    made.build(SHAPE)
    random = np.random.default_rng(7)
    made.set_weights([random.uniform(0.5, 2.0, weight.shape) for weight in made.get_weights()])
    return made


def inputs(seed: int = 3) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(1.0, 3.0, SHAPE), tf.float32)


def step(made: keras.layers.BatchNormalization, images: tf.Tensor) -> Step:
    with tf.GradientTape() as tape:
        tape.watch(images)
        outputs = made(images, training=True)
        loss = tf.reduce_sum(outputs**3)
    gradients = tape.gradient(loss, [images, made.gamma.value, made.beta.value])
    statistics = made.moving_mean.numpy(), made.moving_variance.numpy()
    return Step(outputs.numpy(), [gradient.numpy() for gradient in gradients], *statistics)


def both() -> tuple[keras.layers.BatchNormalization, keras.layers.BatchNormalization]:
    return layer(FusedBatchNormalization), layer(keras.layers.BatchNormalization)


def test_outputs_gradients_and_statistics_of_training_are_those_of_keras() -> None:
    ours, theirs = both()
    for seed in range(3):
        mine, reference = step(ours, inputs(seed)), step(theirs, inputs(seed))
        np.testing.assert_allclose(mine.outputs, reference.outputs, rtol=1e-4, atol=1e-4)
        for gradient, expected in zip(mine.gradients, reference.gradients, strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-2)
        np.testing.assert_allclose(mine.mean, reference.mean, rtol=1e-5)


def test_the_moving_variance_is_that_of_keras_but_for_bessels_correction() -> None:
    """The fused operation, like PyTorch, corrects the variance of n values by n / (n - 1); Keras 3 does not."""
    ours, theirs = both()
    before = ours.moving_variance.numpy()
    mine, reference = step(ours, inputs()).variance, step(theirs, inputs()).variance
    count = np.prod(SHAPE[:-1])
    momentum = ARGUMENTS["momentum"]
    corrected = momentum * before + (reference - momentum * before) * count / (count - 1)
    np.testing.assert_allclose(mine, corrected, rtol=1e-5)


def test_outputs_of_inference_are_those_of_keras_and_leave_the_statistics() -> None:
    ours, theirs = both()
    before = ours.get_weights()
    np.testing.assert_allclose(ours(inputs(), training=False), theirs(inputs(), training=False), rtol=1e-4, atol=1e-5)
    assert all(np.array_equal(a, b) for a, b in zip(before, ours.get_weights(), strict=True))


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_statistics_are_kept_in_float32_where_arithmetic_is_of_16_bits(precision: str) -> None:
    keras.mixed_precision.set_dtype_policy(precision)
    made = layer(FusedBatchNormalization)
    outputs = made(inputs(), training=True)
    assert outputs.dtype == precision.removeprefix("mixed_")
    assert made.moving_mean.dtype == "float32"
    full = layer(keras.layers.BatchNormalization)
    full(inputs(), training=True)
    np.testing.assert_allclose(made.moving_mean.numpy(), full.moving_mean.numpy(), rtol=0.02, atol=0.02)


def test_a_model_with_our_layer_is_read_back_as_it_was_saved() -> None:
    made = layer(FusedBatchNormalization)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(made))
    assert type(again) is FusedBatchNormalization
    assert (again.momentum, again.epsilon) == (0.9, 1e-5)
