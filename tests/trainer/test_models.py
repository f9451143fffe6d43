"""Networks compared with their papers and other implementations."""

import functools
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.models import networks_by_name

RECIPES = Path(networks_by_name.__file__).parents[2] / "recipes"


def trainable(model: keras.Model) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


@functools.cache
def network(name: str) -> keras.Model:
    return networks_by_name.build(name, 64, 3, 1000, seed=1)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("alexnet", 61_100_840),  # torchvision, AlexNet_Weights; Krizhevsky et al. 2012, section 3.5: 60 million
        ("googlenet", 6_998_552),  # BVLC/caffe, models/bvlc_googlenet, without auxiliary classifiers
        ("vgg16", 138_357_544),  # torchvision, VGG16_Weights; Simonyan and Zisserman 2015, table 2: 138 million
        ("inception_v3", 23_834_568),  # torchvision, Inception_V3_Weights: 27,161,264, its auxiliary 3,326,696
        ("resnet50", 25_557_032),  # torchvision, ResNet50_Weights
        ("resnet101", 44_549_160),  # torchvision, ResNet101_Weights
        ("mobilenet_v2", 3_504_872),  # torchvision, MobileNet_V2_Weights; Sandler et al. 2018, table 4: 3.4 million
    ],
)
def test_imagenet_networks_have_the_published_parameters(name: str, published: int) -> None:
    model = networks_by_name.build(name, 299 if name == "inception_v3" else 224, 3, 1000, seed=1)
    assert trainable(model) == published == output(name)["parameters"]


def output(name: str) -> dict[str, int]:
    """Read the network's recipe without the packages of the control side."""
    text = (RECIPES / f"{name}.yaml").read_text()
    return {key: int(value) for key, value in re.findall(r"\b(parameters|image_size|channels|classes): (\d+)", text)}


@pytest.mark.parametrize("name", [*networks_by_name.IMAGES, *networks_by_name.TABLES])
def test_every_network_has_a_recipe(name: str) -> None:
    assert (RECIPES / f"{name}.yaml").exists()


def test_table_network_takes_rows_unscaled() -> None:
    model = networks_by_name.build("dense", 1, 6, 3, seed=1)
    assert trainable(model) == (6 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 3 == output("dense")["parameters"]
    assert (model.inputs[0].dtype, model.input_shape) == ("float32", (None, 1, 1, 6))
    assert model(np.zeros((2, 1, 1, 6), np.float32)).shape == (2, 3)


def test_resnet20_has_the_parameters_of_its_paper() -> None:
    """He et al. 2016, table 6: 0.27 M. This network has 1x1 projections where the shape changes."""
    count = trainable(networks_by_name.build("resnet20", 32, 3, 10, seed=1))
    assert count == 272_474 == output("resnet20")["parameters"]
    assert round(count / 1e6, 2) == 0.27


@pytest.mark.parametrize(("size", "padding"), [(28, "same"), (32, "valid")])
def test_lenet_pads_28_pixels_to_32(size: int, padding: str) -> None:
    """LeCun et al. 1998, section II-B, with C3 connected to all of S2: 156 + 2416 + 48120 + 10164 + 850."""
    model = networks_by_name.build("lenet", size, 1, 10, seed=1)
    assert trainable(model) == 61_706 == output("lenet")["parameters"]
    assert next(layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)).padding == padding


@pytest.mark.parametrize(("name", "layers"), [("resnet20", 20), ("resnet50", 50), ("resnet101", 101)])
def test_network_name_counts_its_layers_with_weights(name: str, layers: int) -> None:
    kinds = [type(layer).__name__ for layer in network(name).layers]
    projections = {"resnet20": 2, "resnet50": 4, "resnet101": 4}[name]  # the paper does not count them
    assert kinds.count("Convolution2D") + kinds.count("Dense") - projections == layers


def first_weights(seed: int) -> list[np.ndarray]:
    model = networks_by_name.build("resnet20", 32, 3, 10, seed=seed)
    return [np.array(variable.numpy()) for variable in model.variables]


def test_initial_weights_depend_on_the_seed() -> None:
    first, again, other = first_weights(1), first_weights(1), first_weights(2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_initial_weights_ignore_earlier_draws() -> None:
    before = first_weights(1)
    tf.random.normal([10])
    np.random.default_rng().normal(size=10)
    assert all(np.array_equal(a, b) for a, b in zip(before, first_weights(1), strict=True))


@pytest.mark.parametrize("name", ["lenet", "resnet20", "googlenet"])
def test_saved_network_can_be_loaded(tmp_path: Path, name: str) -> None:
    model = networks_by_name.build(name, 64, 3, 10, 1)
    model.save(tmp_path / "saved.keras")
    images = np.zeros((1, 64, 64, 3), np.uint8)
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "saved.keras")(images), model(images))


def test_only_the_last_gamma_of_bottleneck_blocks_is_zero() -> None:
    model = networks_by_name.build("resnet50", 32, 3, 10, seed=1)
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
        ("alexnet", 63, 3, "mixed_bfloat16"),
        ("googlenet", 64, 3, "mixed_bfloat16"),
        ("vgg16", 28, 1, "mixed_bfloat16"),
        ("inception_v3", 75, 3, "mixed_bfloat16"),
        ("mobilenet_v2", 28, 1, "mixed_float16"),
    ],
)
def test_models_map_bytes_to_float32_logits(name: str, size: int, channels: int, precision: str) -> None:
    keras.mixed_precision.set_dtype_policy(precision)
    model = networks_by_name.build(name, size, channels, 7, seed=1)
    images = np.random.default_rng(1).integers(0, 256, (3, size, size, channels), np.uint8)
    logits = model(images, training=False)
    assert (model.inputs[0].dtype, model.input_shape) == ("uint8", (None, size, size, channels))
    assert (logits.dtype, tuple(logits.shape)) == (tf.float32, (3, 7))
    assert np.isfinite(logits.numpy()).all()


@pytest.mark.parametrize(("size", "last"), [(28, 4), (32, 4), (64, 2), (224, 7)])
def test_mobilenet_downsamples_small_images_less(size: int, last: int) -> None:
    model = networks_by_name.build("mobilenet_v2", size, 3, 10, seed=1)
    pooling = next(layer for layer in model.layers if isinstance(layer, keras.layers.GlobalAveragePooling2D))
    assert pooling.input.shape[1] == last


def masked(rank: int, seed: int = 1) -> np.ndarray:
    """Return a row of ones after a rank's second draw of dropout."""
    images = keras.Input((100,))
    keras.utils.set_random_seed(seed)
    model = keras.Model(images, keras.layers.Dropout(0.5)(images))
    networks_by_name.offset_dropout_seeds(model, rank)
    draws = [model(np.ones((1, 100), np.float32), training=True) for _ in range(2)]
    assert not np.array_equal(*draws)
    return np.array(draws[1])


def test_dropout_differs_between_ranks_and_is_reproducible() -> None:
    assert np.array_equal(masked(rank=1), masked(rank=1))
    assert not np.array_equal(masked(rank=0), masked(rank=1))
    assert not np.array_equal(masked(rank=0), masked(rank=0, seed=2))


def test_dropout_depends_only_on_model_variables() -> None:
    keras.utils.set_random_seed(1)
    images = keras.Input((100,))
    first, other = (keras.Model(images, keras.layers.Dropout(0.5)(images)) for _ in range(2))
    first(np.ones((1, 100), np.float32), training=True)
    for variable, value in zip(other.variables, first.variables, strict=True):
        variable.assign(value)
    following = [model(np.ones((1, 100), np.float32), training=True) for model in (first, other)]
    assert np.array_equal(*following)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_weights_are_float32_in_mixed_precision(precision: str) -> None:
    keras.mixed_precision.set_dtype_policy(precision)
    model = networks_by_name.build("resnet20", 32, 3, 10, seed=1)
    assert {variable.dtype for variable in model.variables if variable.path != "seed"} == {"float32"}
    assert model.layers[2].compute_dtype == precision.removeprefix("mixed_")


@pytest.mark.parametrize(("size", "first"), [(63, (3, 3)), (64, (7, 7))])
def test_small_images_start_with_a_3x3_convolution(size: int, first: tuple[int, int]) -> None:
    model = networks_by_name.build("resnet50", size, 3, 10, seed=1)
    convolution = next(layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D))
    pooled = any(isinstance(layer, keras.layers.MaxPooling2D) for layer in model.layers)
    assert (convolution.kernel_size, pooled) == (first, first == (7, 7))


def test_pixels_are_scaled_to_unit_variance() -> None:
    model = networks_by_name.build("resnet20", 32, 3, 10, seed=1)
    scaled = model.layers[1](tf.constant([[[[0, 128, 255]]]], tf.uint8))
    assert scaled.numpy().ravel().tolist() == [-2.0, 0.0, 255 / 64 - 2.0]
