"""Convolution compared with Keras' own layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from orchestrator.trainer import cpu
from orchestrator.trainer.models import convolution
from orchestrator.trainer.models.convolution import Convolution2D

Size = int | tuple[int, int]
PRODUCTS: list[tuple[Size, int, int, str]] = [
    (1, 1, 8, "valid"),
    (1, 2, 9, "same"),
    (3, 1, 4, "same"),
    (3, 2, 8, "same"),
    (3, 1, 5, "valid"),
    ((1, 3), 1, 4, "same"),
]
LEFT_ALONE: list[tuple[Size, int, int, str]] = [(3, 1, 8, "same")]


def gradients(kind: type[layers.Conv2D], size: Size, stride: int, pixels: int, padding: str) -> list[np.ndarray]:
    """The outputs, and the gradients of inputs and weights, of a layer with the same weights."""
    random = np.random.default_rng(3)
    images = tf.constant(random.normal(size=(2, pixels, pixels, 5)), tf.float32)
    made = kind(7, size, strides=stride, padding=padding, use_bias=False)
    made.build(images.shape)
    made.set_weights([random.normal(size=made.kernel.shape)])

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = made(x)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        return [outputs, *tape.gradient(loss, [x, made.kernel.value])]

    return [np.asarray(part) for part in step(images)]


@pytest.mark.parametrize(("size", "stride", "pixels", "padding"), PRODUCTS + LEFT_ALONE)
def test_outputs_and_gradients_equal_keras(size: Size, stride: int, pixels: int, padding: str) -> None:
    ours, theirs = (gradients(kind, size, stride, pixels, padding) for kind in (Convolution2D, layers.Conv2D))
    for mine, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("at_once", [1, 1 << 20])
@pytest.mark.parametrize(
    ("size", "stride", "pixels", "padding", "shifted"),
    [(3, 1, 8, "same", True), (3, 1, 9, "same", True), (3, 1, 8, "valid", False), (5, 1, 8, "same", False)],
)
def test_large_images_use_shifts_without_avx512(
    monkeypatch: pytest.MonkeyPatch, size: Size, stride: int, pixels: int, padding: str, shifted: bool, at_once: int
) -> None:
    asked, by_shifts = [], convolution._by_shifts

    def watched(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        asked.append(x)
        return by_shifts(x, upstream)

    monkeypatch.setattr(convolution, "_by_shifts", watched)
    monkeypatch.setattr(convolution, "SHIFTED", 320)  # 64 pixels of 5 channels
    monkeypatch.setattr(convolution, "SHIFTS_BYTES", at_once)
    theirs = gradients(layers.Conv2D, size, stride, pixels, padding)
    for known in ({"avx2"}, {"avx2", "avx512f"}):
        monkeypatch.setattr(cpu, "instructions", lambda known=known: known)
        for mine, reference in zip(gradients(Convolution2D, size, stride, pixels, padding), theirs, strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-3)
    assert len(asked) == shifted


@pytest.mark.parametrize(("size", "stride", "pixels", "padding"), [PRODUCTS[1], PRODUCTS[3]])
def test_outputs_and_gradients_equal_keras_in_16_bits(size: Size, stride: int, pixels: int, padding: str) -> None:
    exact = gradients(layers.Conv2D, size, stride, pixels, padding)
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    for mine, reference in zip(gradients(Convolution2D, size, stride, pixels, padding), exact, strict=True):
        np.testing.assert_allclose(mine.astype(np.float32), reference, rtol=0.03, atol=0.03 * np.abs(reference).max())
