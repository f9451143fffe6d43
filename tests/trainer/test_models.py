"""The networks, against what their papers and others' implementations say of them."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer import models


def trainable(model: keras.Model) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


@functools.cache
def network(name: str) -> keras.Model:
    return models.build(name, 64, 3, 1000, seed=1)


@pytest.mark.parametrize(("name", "published"), [("resnet50", 25_557_032), ("resnet101", 44_549_160)])
def test_the_bottleneck_networks_have_as_many_parameters_as_torchvisions(name: str, published: int) -> None:
    """torchvision.models documents these for its ResNet50_Weights and ResNet101_Weights."""
    assert trainable(network(name)) == published


def test_resnet20_has_the_parameters_of_its_paper() -> None:
    """He et al. 2016, table 6: 0.27 M. Ours has 1x1 projections where the shape changes."""
    count = trainable(models.build("resnet20", 32, 3, 10, seed=1))
    assert count == 272_474
    assert round(count / 1e6, 2) == 0.27


@pytest.mark.parametrize(("size", "padding"), [(28, "same"), (32, "valid")])
def test_lenet_has_the_parameters_of_its_usual_form_and_28_pixels_stand_in_a_frame_of_32(
    size: int, padding: str
) -> None:
    """LeCun et al. 1998, section II-B, with C3 joined to all of S2: 156 + 2416 + 48120 + 10164 + 850."""
    model = models.build("lenet", size, 1, 10, seed=1)
    assert trainable(model) == 61_706
    assert next(layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)).padding == padding


@pytest.mark.parametrize(("name", "layers"), [("resnet20", 20), ("resnet50", 50), ("resnet101", 101)])
def test_a_networks_name_says_its_layers_with_weights(name: str, layers: int) -> None:
    kinds = [type(layer).__name__ for layer in network(name).layers]
    projections = {"resnet20": 2, "resnet50": 4, "resnet101": 4}[name]  # the paper does not count them
    assert kinds.count("Conv2D") + kinds.count("Dense") - projections == layers


def first_weights(seed: int) -> list[np.ndarray]:
    model = models.build("resnet20", 32, 3, 10, seed=seed)
    return [np.array(variable.numpy()) for variable in model.variables]


def test_the_same_seed_draws_the_same_weights_and_another_seed_others() -> None:
    one, again, other = first_weights(1), first_weights(1), first_weights(2)
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_weights_do_not_depend_on_what_was_drawn_before() -> None:
    before = first_weights(1)
    tf.random.normal([10])
    np.random.default_rng().normal(size=10)
    assert all(np.array_equal(a, b) for a, b in zip(before, first_weights(1), strict=True))


def test_the_last_gamma_of_every_bottleneck_block_starts_at_zero_and_no_other() -> None:
    model = models.build("resnet50", 32, 3, 10, seed=1)
    gammas = [layer.gamma.numpy() for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert sum(not gamma.any() for gamma in gammas) == 16
    assert all(gamma.all() or not gamma.any() for gamma in gammas)


@pytest.mark.parametrize(
    ("name", "size", "channels", "precision"),
    [
        ("lenet", 28, 1, "float32"),
        ("resnet20", 28, 1, "float32"),
        ("resnet20", 28, 1, "mixed_float16"),
        ("resnet50", 32, 3, "mixed_bfloat16"),
    ],
)
def test_images_go_in_as_bytes_and_logits_come_out_as_float32(
    name: str, size: int, channels: int, precision: str
) -> None:
    keras.mixed_precision.set_dtype_policy(precision)
    model = models.build(name, size, channels, 7, seed=1)
    images = np.random.default_rng(1).integers(0, 256, (3, size, size, channels), np.uint8)
    logits = model(images, training=False)
    assert (model.inputs[0].dtype, model.input_shape) == ("uint8", (None, size, size, channels))
    assert (logits.dtype, tuple(logits.shape)) == (tf.float32, (3, 7))
    assert np.isfinite(logits.numpy()).all()


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_weights_stay_float32_where_arithmetic_is_of_16_bits(precision: str) -> None:
    keras.mixed_precision.set_dtype_policy(precision)
    model = models.build("resnet20", 32, 3, 10, seed=1)
    assert {variable.dtype for variable in model.variables if variable.path != "seed"} == {"float32"}
    assert model.layers[2].compute_dtype == precision.removeprefix("mixed_")


@pytest.mark.parametrize(("size", "first"), [(63, (3, 3)), (64, (7, 7))])
def test_small_images_begin_with_a_small_convolution_and_without_pooling(size: int, first: tuple[int, int]) -> None:
    model = models.build("resnet50", size, 3, 10, seed=1)
    convolution = next(layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D))
    pooled = any(isinstance(layer, keras.layers.MaxPooling2D) for layer in model.layers)
    assert (convolution.kernel_size, pooled) == (first, first == (7, 7))


def test_pixels_are_brought_to_about_unit_variance() -> None:
    model = models.build("resnet20", 32, 3, 10, seed=1)
    scaled = model.layers[1](tf.constant([[[[0, 128, 255]]]], tf.uint8))
    assert scaled.numpy().ravel().tolist() == [-2.0, 0.0, 255 / 64 - 2.0]
