"""The operation for batch normalisation compared with a sequence of TensorFlow's operations."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.models import networks_by_name
from orchestrator.trainer.models.batch_normalization import CEILINGS, FusedBatchNormalization
from orchestrator.trainer.tensorflow_operations import library

SHAPES = [(8, 5, 5, 6), (1, 1, 1, 3), (4, 8, 8, 16), (2, 7, 9, 80), (3, 1, 1, 2048)]
BITS = """
import hashlib, sys
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
from tests.trainer.test_normalization_operation import step
results = step(True, "relu", (16, 16, 16, 48), 1, "float32")
print(hashlib.sha256(b"".join(result.tobytes() for result in results)).hexdigest())
"""


def step(whole: bool, activation: str, shape: tuple[int, ...], added: int, dtype: str) -> list[np.ndarray]:
    """Return outputs, gradients of inputs, gamma and beta, and the statistics after a training step."""
    keras.mixed_precision.set_dtype_policy("float32" if dtype == "float32" else f"mixed_{dtype}")
    layer = FusedBatchNormalization(activation, momentum=0.9, epsilon=1e-5)
    layer.whole = whole
    random = np.random.default_rng(7)
    draws = [tf.cast(tf.constant(random.normal(1.0, 3.0, shape), tf.float32), dtype) for _ in range(added + 2)]
    *inputs, upstream = draws
    layer.build([shape] * len(inputs) if added else shape)
    layer.set_weights([random.uniform(0.5, 2.0, weight.shape) for weight in layer.get_weights()])
    trained = [*inputs, layer.gamma.value, layer.beta.value]

    def run() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs if added else inputs[0], training=True)
        return [outputs, *tape.gradient(outputs, trained, output_gradients=upstream)]

    results = [*tf.function(run, autograph=False)(), layer.moving_mean.value, layer.moving_variance.value]
    return [tf.cast(result, tf.float32).numpy() for result in results]


def test_image_has_the_operation() -> None:
    assert library.load() is not None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("added", [0, 1])
@pytest.mark.parametrize("activation", CEILINGS)
def test_results_equal_tensorflows(activation: str, added: int, shape: tuple[int, ...]) -> None:
    outputs, expected = (step(whole, activation, shape, added, "float32") for whole in (True, False))
    for actual, reference in zip(outputs, expected, strict=True):
        scale = max(np.abs(reference).max(), 1e-3)
        np.testing.assert_allclose(actual, reference, rtol=2e-4, atol=2e-5 * scale)


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_bfloat16_is_as_close_to_float32_as_tensorflows(activation: str) -> None:
    exact = step(False, activation, (4, 8, 8, 64), 0, "float32")
    outputs, expected = (step(whole, activation, (4, 8, 8, 64), 0, "bfloat16") for whole in (True, False))
    for actual, reference, precise in zip(outputs, expected, exact, strict=True):
        errors = [np.sqrt(np.mean((rounded - precise) ** 2)) for rounded in (actual, reference)]
        assert errors[0] <= 1.1 * errors[1] + 1e-6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_gradients_of_two_uses_have_the_bits_of_their_sum(activation: str, dtype: str) -> None:
    keras.mixed_precision.set_dtype_policy("float32" if dtype == "float32" else f"mixed_{dtype}")
    random = np.random.default_rng(3)
    images, side, first, second = (tf.cast(random.normal(size=(4, 6, 6, 48)), dtype) for _ in range(4))
    layer = FusedBatchNormalization(activation)
    layer.build([tuple(images.shape)] * 2)

    def run(*upstream: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([images, side])
            outputs = layer([images, side], training=True)
            uses = [outputs * 1 for _ in upstream]
        gradients: list[tf.Tensor] = tape.gradient(uses, [images, side, layer.gamma.value], list(upstream))
        return gradients

    apart = tf.function(run, autograph=False).get_concrete_function(first, second)
    kinds = {operation.type: operation for operation in apart.graph.get_operations()}
    assert kinds["OrchestratorNormalizeGradient"].get_attr("uses") == 2
    for actual, expected in zip(apart(first, second), tf.function(run, autograph=False)(first + second), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    digests = {subprocess.check_output([sys.executable, "-c", BITS, str(threads)]) for threads in (1, 2, 3)}
    assert len(digests) == 1


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_relu_does_not_hide_nan(policy: str) -> None:
    layer = FusedBatchNormalization("relu", dtype=policy)
    images = np.ones((2, 3, 3, 4), np.float32)
    images[1, 2, 0, 3] = np.nan
    outputs = tf.cast(layer(images, training=True), tf.float32).numpy()
    assert np.isnan(outputs[..., 3]).all()
    assert not np.isnan(outputs[..., :3]).any()


def test_inconsistent_shapes_are_refused() -> None:
    images, numbers = tf.ones([2, 3, 3, 4]), tf.ones([4])
    for wrong in ({"gamma": tf.ones([3])}, {"side": [tf.ones([2, 3, 3, 1])]}):
        inputs = {"x": images, "gamma": numbers, "beta": numbers, "side": [images]} | wrong
        with pytest.raises(tf.errors.InvalidArgumentError, match="has shape"):
            library.load().orchestrator_normalize(**inputs, ceiling=-1.0, epsilon=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 3, 0), ()])
def test_images_without_channels_are_refused(shape: tuple[int, ...]) -> None:
    images, none, settings = tf.zeros(shape), tf.zeros([0]), {"ceiling": -1.0, "epsilon": 1e-5}
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected one or more channels"):
        library.load().orchestrator_normalize(x=images, gamma=none, beta=none, side=[], **settings)
    statistics = {"gamma": none, "mean": none, "variance": none, "added": 0}
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected one or more channels"):
        library.load().orchestrator_normalize_gradient(dy=[images], y=images, x=images, **statistics, **settings)


@pytest.mark.parametrize(("uses", "added"), [(2, 0), (3, 1), (1, 2)])
def test_gradients_that_the_operation_cannot_add_up_are_refused(uses: int, added: int) -> None:
    images, numbers = tf.ones([2, 3, 3, 4]), tf.ones([4])
    inputs = {"dy": [images] * uses, "y": images, "x": images, "gamma": numbers, "mean": numbers, "variance": numbers}
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{uses} gradients and {added} sides, expected"):
        library.load().orchestrator_normalize_gradient(**inputs, added=added, ceiling=-1.0, epsilon=1e-5)


def test_equal_pixels_have_no_variance() -> None:
    layer = FusedBatchNormalization()
    outputs = layer(tf.fill([4, 8, 8, 16], 1e4), training=True)
    np.testing.assert_allclose(outputs, np.zeros((4, 8, 8, 16)), atol=1e-6)


def test_network_for_xla_uses_operations_of_tensorflow() -> None:
    model = networks_by_name.build("resnet20", 32, 3, 10, 1)
    networks_by_name.prepare_for_xla(model)
    traced = tf.function(lambda: model(tf.zeros([2, 32, 32, 3], tf.uint8), training=True), autograph=False)
    kinds = {operation.type for operation in traced.get_concrete_function().graph.get_operations()}
    assert "FusedBatchNormV3" in kinds
    assert "OrchestratorNormalize" not in kinds
