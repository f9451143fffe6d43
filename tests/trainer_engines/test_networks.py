"""Networks of Keras layers, of PyTorch modules and of the trainer have the same outputs for the same weights."""

from pathlib import Path

import keras
import numpy as np
import pytest
import torch

from orchestrator.schema import TrainConfig
from orchestrator.trainer.engines import initial_weights, keras_network, torch_networks, weight_files
from orchestrator.trainer.models import networks_by_name
from orchestrator.trainer.models.batch_normalization import Normalization
from tests import samples

MODELS = tuple(torch_networks.BUILD)
SIZES = (28, 33, 64)  # small images, an odd size, and one at which networks downsample at once
CLOSE = 1e-3  # tolerance of float32 sums in another order, through up to a hundred layers


def config(model: str, size: int) -> TrainConfig:
    return samples.train_config(model=model, image_size=size, channels=3)


def ours(settings: TrainConfig) -> keras.Model:
    return networks_by_name.build(
        settings.model, settings.image_size, settings.channels, settings.classes, settings.seed
    )


def random_weights(model: keras.Model) -> weight_files.Weights:
    """Return weights without zeros and ones, so that each affects the result."""
    draw = np.random.default_rng(2)
    weights_by_name = keras_network.read(model)
    return {
        name: values if values.ndim > 1 else draw.uniform(0.5, 1.5, values.shape).astype(np.float32)
        for name, values in weights_by_name.items()
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("model", MODELS)
def test_networks_have_the_same_logits(model: str, size: int) -> None:
    settings = config(model, size)
    ours_model, plain = ours(settings), keras_network.build(settings)
    values = random_weights(ours_model)
    for network in (ours_model, plain):
        keras_network.assign(network, values)
    modules = torch_networks.build(settings, values).eval()
    images = np.random.default_rng(1).integers(0, 256, (4, size, size, 3), np.uint8)
    expected = np.asarray(ours_model(images, training=False))
    with torch.no_grad():
        logits = modules(torch.from_numpy(images)).numpy()
    scale = np.abs(expected).max()
    assert np.abs(np.asarray(plain(images, training=False)) - expected).max() < CLOSE * scale
    assert np.abs(logits - expected).max() < CLOSE * scale
    # The logits of an image differ, so the weights are not all alike.
    assert np.ptp(expected, axis=1).min() > CLOSE * scale


@pytest.mark.parametrize("model", MODELS)
def test_weights_survive_a_round_trip(model: str) -> None:
    settings = config(model, 32)
    values = random_weights(ours(settings))
    read = torch_networks.read(torch_networks.build(settings, values))
    assert set(read) == set(values)
    assert all(np.array_equal(read[name], values[name]) for name in values)


def test_keras_networks_compute_with_keras_operations() -> None:
    """The one layer of this project adds a shortcut and an activation to what Keras' batch normalization computes."""
    plain = keras_network.build(config("mobilenet_v2", 32))
    others = {type(layer) for layer in plain.layers if not type(layer).__module__.startswith("keras.")}
    assert others == {Normalization}
    decayed = [layer.kernel_regularizer for layer in plain.layers if isinstance(layer, keras.layers.Conv2D)]
    assert all(float(regularizer.l2) == pytest.approx(0.5e-4) for regularizer in decayed)


def test_initial_weights_equal_those_of_train(tmp_path: Path) -> None:
    settings = config("resnet20", 32)
    settings.write(tmp_path / "config.json")
    initial_weights.main(tmp_path)
    expected, initial = keras_network.read(ours(settings)), weight_files.initial(tmp_path, 1)
    assert list(initial) == list(expected)
    assert all(np.array_equal(initial[name], expected[name]) for name in expected)
