"""Networks that compute with Keras' own layers, with weights by the names of ``weights``.

``Normalization`` adds the shortcut and the activation, by Keras' operations, to Keras' batch normalization.
"""

import re
from typing import Any

import keras
import numpy as np
from keras import layers

from orchestrator.schema import TrainConfig
from orchestrator.trainer.engines.weight_files import Weights
from orchestrator.trainer.models import networks_by_name
from orchestrator.trainer.models.batch_normalization import FusedBatchNormalization, Normalization
from orchestrator.trainer.models.convolution import Convolution2D
from orchestrator.trainer.models.depthwise_convolution import DepthwiseConvolution2D

# Kinds of layers with weights; a depthwise convolution is no Conv2D in Keras.
KINDS: dict[Any, str] = {
    layers.Conv2D: "convolution",
    layers.DepthwiseConv2D: "depthwise",
    layers.BatchNormalization: "normalization",
    layers.Dense: "dense",
}
KERAS_LAYERS: dict[type, type] = {
    Convolution2D: layers.Conv2D,
    DepthwiseConvolution2D: layers.DepthwiseConv2D,
    FusedBatchNormalization: Normalization,
}


def build(config: TrainConfig) -> keras.Model:
    """Build the network of ``train`` with Keras' layers instead of this project's, and weight decay as regularizers."""
    model = networks_by_name.build(config.model, config.image_size, config.channels, config.classes, config.seed)
    return keras.models.clone_model(model, clone_function=lambda layer: _keras_layer(layer, config.weight_decay))


def _keras_layer(layer: layers.Layer, decay: float) -> layers.Layer:
    """Return the Keras layer that replaces ``layer``.

    The regularizer is half the decay times the squared kernel, whose gradient is the decay times the kernel.
    """
    settings = layer.get_config()
    for role in ("kernel", "depthwise"):
        if f"{role}_initializer" in settings:
            settings[f"{role}_initializer"] = "zeros"
            settings[f"{role}_regularizer"] = keras.regularizers.L2(decay / 2) if decay else None
    kind: Any = KERAS_LAYERS.get(type(layer), type(layer))
    return kind.from_config(settings)


def variables(model: keras.Model) -> dict[str, Any]:
    """Return the variables of weights and statistics by name, in the order in which layers were created."""
    named: dict[str, Any] = {}
    for kind, name in KINDS.items():
        alike = sorted((layer for layer in model.layers if isinstance(layer, kind)), key=_number)
        for number, layer in enumerate(alike):
            named |= {f"{name}/{number}/{variable.name}": variable for variable in layer.variables}
    return named


def _number(layer: layers.Layer) -> int:
    """Return the number that Keras gave to a layer of its class: none to the first, then _1, _2."""
    match = re.search(r"_(\d+)$", layer.name)
    return int(match[1]) if match else 0


def read(model: keras.Model) -> Weights:
    """Return copies of a network's weights and statistics."""
    return {name: np.array(variable) for name, variable in variables(model).items()}


def assign(model: keras.Model, weights: Weights) -> None:
    """Assign weights of the same names."""
    for name, variable in variables(model).items():
        variable.assign(weights[name])
