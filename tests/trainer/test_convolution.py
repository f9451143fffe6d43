"""Convolution compared with Keras' own layer."""

import ctypes
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from orchestrator.trainer import cpu_model
from orchestrator.trainer.autotune import choose_convolutions
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.models import convolution, convolution_products, convolution_weight_gradient
from orchestrator.trainer.models.convolution import Convolution2D, Geometry, Ways
from orchestrator.trainer.tensorflow_operations import library
from tests import samples

Size = int | tuple[int, int]
PRODUCTS: list[tuple[Size, int, int, str]] = [
    (1, 1, 8, "valid"),
    (1, 2, 9, "same"),
    (3, 1, 4, "same"),
    (3, 2, 8, "same"),
    (3, 1, 5, "valid"),
    ((1, 3), 1, 4, "same"),
]
UNUSUAL: list[tuple[Size, dict[str, Any]]] = [
    ((1, 2), {}),
    (1, {"dilation_rate": 2}),
    (1, {"dilation_rate": (1, 3)}),
    (1, {"data_format": "channels_first"}),
]
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3)
LARGE: list[tuple[Size, int, int, str]] = [(3, 1, 9, "same"), (3, 1, 12, "valid")]


def gradients(
    kind: type[layers.Conv2D], size: Size, stride: Size, pixels: int, padding: str, **options: Any
) -> list[np.ndarray]:
    """Return outputs, and gradients of inputs and weights, of a layer with fixed weights."""
    random = np.random.default_rng(3)
    images = tf.constant(random.normal(size=(2, pixels, pixels, 5)), tf.float32)
    layer = kind(7, size, strides=stride, padding=padding, use_bias=False, **options)
    layer.build(images.shape)
    layer.set_weights([random.normal(size=layer.kernel.shape)])

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        return [outputs, *tape.gradient(loss, [x, layer.kernel.value])]

    return [np.asarray(part) for part in step(images)]


def other_ways(layer: Convolution2D, pixels: int, dtype: str = "float32") -> Ways:
    """Return every available implementation except TensorFlow's kernel."""
    geometry = layer.geometry(tf.TensorShape([2, pixels, pixels, 5]))
    kernel = tf.TensorShape([geometry.height, geometry.width, 5, 7])
    return Ways(**{name: list(by_name)[-1] for name, by_name in geometry.operations_of(kernel, dtype).items()})


@pytest.mark.parametrize("at_once", [1, 1 << 20])
@pytest.mark.parametrize(("size", "stride", "pixels", "padding"), PRODUCTS + LARGE)
def test_every_implementation_equals_keras(
    monkeypatch: pytest.MonkeyPatch, size: Size, stride: int, pixels: int, padding: str, at_once: int
) -> None:
    monkeypatch.setattr(convolution_products, "SHIFTS_BYTES", at_once)
    ways = other_ways(Convolution2D(7, size, strides=stride, padding=padding), pixels)
    expected = gradients(layers.Conv2D, size, stride, pixels, padding)
    for chosen in (None, ways):
        monkeypatch.setattr(Convolution2D, "ways", chosen)
        for actual, reference in zip(gradients(Convolution2D, size, stride, pixels, padding), expected, strict=True):
            np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(("stride", "options"), UNUSUAL)
def test_unequal_strides_dilation_and_channels_first_equal_keras(
    stride: Size, options: dict[str, Any], padding: str
) -> None:
    expected = gradients(layers.Conv2D, 3, stride, 9, padding, **options)
    for actual, reference in zip(gradients(Convolution2D, 3, stride, 9, padding, **options), expected, strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-3)


def test_large_images_use_shifts_and_small_images_use_products() -> None:
    small, large = (Geometry(3, 3, 1, "SAME", pixels, pixels, 8, 8) for pixels in (8, 9))
    kernel = tf.TensorShape([3, 3, 8, 8])
    names = [list(geometry.operations_of(kernel, "float32")["weights"]) for geometry in (small, large)]
    assert names == [["kernel", "product"], ["kernel", "shifts"]]
    assert list(small.operations_of(kernel, "bfloat16")["weights"]) == ["kernel", "product", "pairs"]


def test_results_and_gradients_of_images_on_small_grids_have_pairs() -> None:
    small, large = (Geometry(3, 3, 1, "SAME", pixels, pixels, 8, 8) for pixels in (8, 9))
    strided = Geometry(3, 3, 2, "SAME", 16, 16, 8, 8)
    for geometry, expected in ((small, True), (large, False), (strided, True)):
        operations = geometry.operations_of(tf.TensorShape([3, 3, 8, 8]), "bfloat16")
        assert ["pairs" in operations[name] for name in ("forward", "inputs")] == [expected, expected]


@pytest.mark.parametrize(("channels", "filters"), [(7, 8), (8, 7)])
def test_odd_numbers_of_what_is_summed_have_no_pairs(channels: int, filters: int) -> None:
    geometry = Geometry(3, 3, 1, "SAME", 8, 8, channels, filters)
    operations = geometry.operations_of(tf.TensorShape([3, 3, channels, filters]), "bfloat16")
    even = [channels % 2 == 0, filters % 2 == 0, True]
    assert ["pairs" in operations[name] for name in ("forward", "inputs", "weights")] == even


def test_choice_that_this_image_does_not_have_is_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that an image with the operation started goes on in an older one."""
    monkeypatch.setattr(library, "load", lambda: None)
    geometry, kernel = Geometry(3, 3, 1, "SAME", 8, 8, 8, 8), tf.TensorShape([3, 3, 8, 8])
    chosen = convolution.implementations(geometry, kernel, tf.bfloat16, Ways(weights="pairs"))
    assert isinstance(chosen["weights"], partial)
    assert chosen["weights"].func is convolution_weight_gradient.to_weights


def test_choices_are_measured_once_per_node_and_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    allreduce.begin()
    images = layers.Input((8, 8, 5))
    model = keras.Model(images, Convolution2D(7, 1, strides=2)(images))
    config = samples.train_config()
    choices = choose_convolutions.choose(config, model, 4)
    assert list(choices) == ["1x1/2 VALID 8x8 5 7"]
    assert model.layers[-1].ways == Ways(*choices["1x1/2 VALID 8x8 5 7"].split())
    (file,) = tmp_path.iterdir()
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "value": {"1x1/2 VALID 8x8 5 7": "product product kernel"}}))
    assert choose_convolutions.choose(config, model, 4) == {"1x1/2 VALID 8x8 5 7": "product product kernel"}
    resumed = config.model_copy(update={"convolutions": {"1x1/2 VALID 8x8 5 7": "kernel product product"}})
    choose_convolutions.choose(resumed, model, 4)
    assert model.layers[-1].ways == Ways("kernel", "product", "product")
    file.write_text("{")
    assert choose_convolutions.choose(config, model, 4).keys() == choices.keys()
    assert json.loads(file.read_text()).keys() == stored.keys()


def test_pairs_are_measured_only_with_the_instruction_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[set[str]] = []
    fastest = choose_convolutions._fastest

    def record(by_name: dict[str, Any], arguments: tuple[tf.Tensor, ...]) -> str:
        timed.append({*by_name})
        return fastest(by_name, arguments)

    monkeypatch.setattr(choose_convolutions, "_fastest", record)
    geometry = Geometry(3, 3, 1, "SAME", 8, 8, 8, 8)
    for instructions in ({"avx512f"}, {"avx512f", "avx512_bf16"}):
        monkeypatch.setattr(cpu_model, "instructions", lambda found=instructions: found)
        choose_convolutions.fastest(geometry, 2, "bfloat16")
    assert [{"pairs"} <= names for names in timed] == [False, False, False, True, True, True]


def test_layers_that_keras_computes_are_not_measured() -> None:
    allreduce.begin()
    images = layers.Input((8, 8, 5))
    model = keras.Model(images, Convolution2D(7, 3, strides=(1, 2))(images))
    assert choose_convolutions.choose(samples.train_config(), model, 4) == {}


def test_unmeasured_convolutions_keep_defaults_without_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(choose_convolutions, "LIMIT", -1.0)
    allreduce.begin()
    images = layers.Input((8, 8, 5))
    model = keras.Model(images, Convolution2D(7, 1)(images))
    assert choose_convolutions.choose(samples.train_config(), model, 4) == {
        "1x1/1 VALID 8x8 5 7": "kernel kernel product"
    }


@pytest.mark.parametrize(("size", "stride", "pixels", "padding"), [PRODUCTS[1], PRODUCTS[3]])
def test_outputs_and_gradients_equal_keras_in_16_bits(
    monkeypatch: pytest.MonkeyPatch, size: Size, stride: int, pixels: int, padding: str
) -> None:
    exact = gradients(layers.Conv2D, size, stride, pixels, padding)
    ways = other_ways(Convolution2D(7, size, strides=stride, padding=padding), pixels, "bfloat16")
    assert ways.weights == "pairs"
    monkeypatch.setattr(Convolution2D, "ways", ways)
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    for actual, reference in zip(gradients(Convolution2D, size, stride, pixels, padding), exact, strict=True):
        np.testing.assert_allclose(actual.astype(np.float32), reference, rtol=0.03, atol=0.03 * np.abs(reference).max())


def count_nan(kind: type[layers.Conv2D], pixels: int, padding: str) -> int:
    """Count NaN gradients of weights, in memory that was filled with NaN before."""
    layer = kind(64, 3, padding=padding, use_bias=False)
    images = tf.ones([4, pixels, pixels, 32], tf.bfloat16)
    layer.build(images.shape)
    with tf.GradientTape() as tape:
        outputs = layer(images)
    fill_free_memory()
    return int(np.isnan(np.asarray(tape.gradient(outputs, layer.kernel.value), np.float32)).sum())


def fill_free_memory() -> None:
    """Fill the memory of this thread's next allocations with bytes that are NaN in every format."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    libc.mallopt(MMAP_THRESHOLD, 32 << 20)  # keep smaller blocks when they are freed
    libc.mallopt(TRIM_THRESHOLD, 1 << 30)
    blocks = [libc.malloc(1 << 20) for _ in range(256)]
    for block in blocks:
        libc.memset(block, 0xFF, 1 << 20)
    for block in blocks:
        libc.free(block)


@pytest.mark.parametrize(("pixels", "padding"), [(61, "same"), (62, "same"), (64, "valid"), (128, "valid")])
def test_gradients_of_weights_do_not_read_uninitialised_memory(pixels: int, padding: str) -> None:
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    print("Keras' layer:", count_nan(layers.Conv2D, pixels, padding), "not numbers")  # some, on CPUs with AMX
    assert count_nan(Convolution2D, pixels, padding) == 0


@pytest.mark.parametrize(("columns", "results", "width", "stride"), [(61, 61, 3, 1), (126, 63, 3, 2), (284, 284, 5, 1)])
def test_zero_columns_widen_images_that_are_read_past_their_end(
    columns: int, results: int, width: int, stride: int
) -> None:
    assert convolution_weight_gradient.spare_columns(columns, results, width, stride) > 0
    assert convolution_weight_gradient.spare_columns(56, 56, 3, 1) == 0
