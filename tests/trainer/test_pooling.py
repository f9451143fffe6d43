"""Max pooling by slices gives what TensorFlow's operation gives, and XLA compiles its gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.models import networks_by_name
from orchestrator.trainer.models.pooling import MaxPooling2D

SIZES = [(2, 2, "valid", 28), (2, 2, "same", 7), (3, 2, "valid", 13), (3, 2, "same", 16), (3, 1, "same", 9)]


@pytest.mark.parametrize(("size", "stride", "padding", "pixels"), SIZES)
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_slices_give_values_and_gradients_of_the_operation(
    size: int, stride: int, padding: str, pixels: int, dtype: tf.DType
) -> None:
    numbers = np.random.default_rng(1).permutation(2 * pixels * pixels * 3).reshape(2, pixels, pixels, 3)
    x = tf.cast(numbers if dtype == tf.float32 else numbers % 256, dtype)  # bfloat16 has 8 bits: equal numbers occur
    layer = MaxPooling2D(size, strides=stride, padding=padding, dtype=dtype.name)

    def pooled(by_slices: bool) -> tuple[tf.Tensor, tf.Tensor]:
        layer.by_slices = by_slices
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            total = tf.reduce_sum(y * tf.cast(tf.reshape(tf.range(tf.size(y)) % 7, tf.shape(y)), dtype))
        return y, tape.gradient(total, x)

    (values, gradients), (sliced, of_slices) = pooled(False), pooled(True)
    assert np.array_equal(values, sliced)
    if dtype == tf.float32:
        assert np.array_equal(gradients, of_slices)


@pytest.mark.parametrize("name", ["lenet", "alexnet", "googlenet", "vgg16", "resnet50", "mobilenet_v2"])
def test_xla_compiles_a_network_in_deterministic_mode(name: str) -> None:
    pixels = 75 if name != "lenet" else 28
    model = networks_by_name.build(name, pixels, 3, 10, seed=1)
    networks_by_name.prepare_for_xla(model)
    tf.config.experimental.enable_op_determinism()

    def gradients(images: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model(images, training=True))
        return tape.gradient(total, model.trainable_variables)

    found = tf.function(gradients, jit_compile=True, autograph=False)(tf.zeros([1, pixels, pixels, 3], tf.uint8))
    assert len(found) == len(model.trainable_variables)
    assert keras.backend.is_float_dtype(found[0].dtype.name)
