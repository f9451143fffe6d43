"""Fused batch normalisation compared with Keras' own layer."""

from dataclasses import dataclass

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.models.batch_normalization import FusedBatchNormalization

SHAPE = (8, 5, 5, 6)
ARGUMENTS = {"momentum": 0.9, "epsilon": 1e-5}


@dataclass
class Step:
    """Result of a training step: outputs, gradients of input, gamma and beta, and the statistics after it."""

    outputs: np.ndarray
    gradients: list[np.ndarray]
    mean: np.ndarray
    variance: np.ndarray


def build_layer(kind: type[keras.layers.BatchNormalization]) -> keras.layers.BatchNormalization:
    """Return a layer whose weights and statistics differ from the initial ones."""
    layer = kind(**ARGUMENTS)
    layer.build(SHAPE)
    random = np.random.default_rng(7)
    layer.set_weights([random.uniform(0.5, 2.0, weight.shape) for weight in layer.get_weights()])
    return layer


def inputs(seed: int = 3) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(1.0, 3.0, SHAPE), tf.float32)


def step(layer: keras.layers.BatchNormalization, images: tf.Tensor) -> Step:
    with tf.GradientTape() as tape:
        tape.watch(images)
        outputs = layer(images, training=True)
        loss = tf.reduce_sum(outputs**3)
    gradients = tape.gradient(loss, [images, layer.gamma.value, layer.beta.value])
    statistics = layer.moving_mean.numpy(), layer.moving_variance.numpy()
    return Step(outputs.numpy(), [gradient.numpy() for gradient in gradients], *statistics)


def both() -> tuple[keras.layers.BatchNormalization, keras.layers.BatchNormalization]:
    return build_layer(FusedBatchNormalization), build_layer(keras.layers.BatchNormalization)


def test_training_outputs_gradients_and_statistics_equal_keras() -> None:
    layer, keras_layer = both()
    for seed in range(3):
        actual, reference = step(layer, inputs(seed)), step(keras_layer, inputs(seed))
        np.testing.assert_allclose(actual.outputs, reference.outputs, rtol=1e-4, atol=1e-4)
        for gradient, expected in zip(actual.gradients, reference.gradients, strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-2)
        np.testing.assert_allclose(actual.mean, reference.mean, rtol=1e-5)


def test_moving_variance_has_bessels_correction() -> None:
    """Like PyTorch, the fused operation corrects the variance of n values by n / (n - 1); Keras 3 does not."""
    layer, keras_layer = both()
    before = layer.moving_variance.numpy()
    actual, reference = step(layer, inputs()).variance, step(keras_layer, inputs()).variance
    count = np.prod(SHAPE[:-1])
    momentum = ARGUMENTS["momentum"]
    corrected = momentum * before + (reference - momentum * before) * count / (count - 1)
    np.testing.assert_allclose(actual, corrected, rtol=1e-5)


def test_inference_equals_keras_and_keeps_statistics() -> None:
    layer, keras_layer = both()
    before = layer.get_weights()
    np.testing.assert_allclose(
        layer(inputs(), training=False), keras_layer(inputs(), training=False), rtol=1e-4, atol=1e-5
    )
    assert all(np.array_equal(a, b) for a, b in zip(before, layer.get_weights(), strict=True))


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_statistics_are_float32_in_mixed_precision(precision: str) -> None:
    keras.mixed_precision.set_dtype_policy(precision)
    layer = build_layer(FusedBatchNormalization)
    outputs = layer(inputs(), training=True)
    assert outputs.dtype == precision.removeprefix("mixed_")
    assert layer.moving_mean.dtype == "float32"
    full = build_layer(keras.layers.BatchNormalization)
    full(inputs(), training=True)
    np.testing.assert_allclose(layer.moving_mean.numpy(), full.moving_mean.numpy(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("whole", [True, False])
def test_frozen_layer_uses_and_keeps_its_statistics(whole: bool) -> None:
    layer = build_layer(FusedBatchNormalization)
    layer.whole, layer.trainable = whole, False
    before = [np.array(weight) for weight in layer.get_weights()]
    np.testing.assert_allclose(layer(inputs(), training=True), layer(inputs(), training=False))
    for weight, old in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


def test_several_images_are_added() -> None:
    layer, images = build_layer(FusedBatchNormalization), inputs()
    added = layer([images, tf.ones_like(images), 10 * tf.ones_like(images)], training=True)
    np.testing.assert_allclose(added, layer(images, training=True) + 11.0, rtol=1e-4)


def test_layer_can_be_serialised_and_read_back() -> None:
    layer = build_layer(FusedBatchNormalization)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is FusedBatchNormalization
    assert (again.momentum, again.epsilon) == (0.9, 1e-5)
