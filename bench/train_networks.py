"""The recipes' networks built of Keras' own layers only: `model.fit` trains them in ``bench.train_keras``.

Those in keras.applications are taken from there, with a last layer that returns logits. The papers of the others are
named in orchestrator/trainer/models; ``bench.train`` checks that the trainer's networks have as many parameters.
Dropout is in the same places. BENCH_KERAS names the package: ``keras``, or ``tf_keras``, which is Keras 2.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

from orchestrator.trainer.models.inception import STAGES

keras: Any = importlib.import_module(os.environ.get("BENCH_KERAS", "keras"))
layers = keras.layers
APPLICATIONS = {
    "vgg16": "VGG16",
    "inception_v3": "InceptionV3",
    "resnet50": "ResNet50",
    "resnet101": "ResNet101",
    "mobilenet_v2": "MobileNetV2",
}


def build(name: str, pixels: int, channels: int, classes: int) -> Any:
    """Build a network.

    Args:
        name: The model.
        pixels: Height and width of the images; 1 for rows.
        channels: Channels of the images, or features of the rows.
        classes: Number of classes.

    Returns:
        A model from uint8 images (batch, pixels, pixels, channels), for "dense" float32 rows, to float32 logits.
    """
    shape = (pixels, pixels, channels)
    inputs = layers.Input(shape, dtype="float32" if name == "dense" else "uint8")
    x = inputs if name == "dense" else layers.Rescaling(1 / 64.0, offset=-2.0)(inputs)
    if name in APPLICATIONS:
        make = getattr(keras.applications, APPLICATIONS[name])
        return keras.Model(
            inputs, make(weights=None, input_shape=shape, classes=classes, classifier_activation=None)(x)
        )
    return keras.Model(inputs, layers.Dense(classes)(BODIES[name](x)))


def lenet(x: Any) -> Any:
    x = layers.MaxPooling2D()(layers.Conv2D(6, 5, activation="relu")(x))
    x = layers.MaxPooling2D()(layers.Conv2D(16, 5, activation="relu")(x))
    return _hidden(layers.Flatten()(x), 120, 84)


def alexnet(x: Any) -> Any:
    x = layers.Conv2D(64, 11, strides=4, activation="relu")(layers.ZeroPadding2D(2)(x))
    x = _convolution(layers.MaxPooling2D(3, 2)(x), 192, 5)
    x = _convolution(layers.MaxPooling2D(3, 2)(x), 384, 3)
    x = _convolution(_convolution(x, 256, 3), 256, 3)
    x = layers.Flatten()(layers.MaxPooling2D(3, 2)(x))
    x = _hidden(layers.Dropout(0.5)(x), 4096)
    return _hidden(layers.Dropout(0.5)(x), 4096)


def googlenet(x: Any) -> Any:
    x = layers.Conv2D(64, 7, strides=2, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    x = _convolution(_convolution(x, 64, 1), 192, 3)
    for stage in STAGES:
        x = layers.MaxPooling2D(3, 2, padding="same")(x)
        for one, before3, three, before5, five, pooled in stage:
            branches = [
                _convolution(x, one, 1),
                _convolution(_convolution(x, before3, 1), three, 3),
                _convolution(_convolution(x, before5, 1), five, 5),
                _convolution(layers.MaxPooling2D(3, 1, padding="same")(x), pooled, 1),
            ]
            x = layers.Concatenate()(branches)
    return layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(x))


def resnet20(x: Any) -> Any:
    x = layers.ReLU()(_normalized(x, 16))
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and filters > 16 else 1
            y = _normalized(layers.ReLU()(_normalized(x, filters, stride)), filters)
            around = x if stride == 1 else _normalized(x, filters, stride, 1)
            x = layers.ReLU()(layers.Add()([around, y]))
    return layers.GlobalAveragePooling2D()(x)


def dense(x: Any) -> Any:
    return _hidden(layers.Flatten()(x), 64, 64)


def _convolution(x: Any, filters: int, size: int) -> Any:
    return layers.Conv2D(filters, size, padding="same", activation="relu")(x)


def _normalized(x: Any, filters: int, stride: int = 1, size: int = 3) -> Any:
    x = layers.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def _hidden(x: Any, *units: int) -> Any:
    for count in units:
        x = layers.Dense(count, activation="relu")(x)
    return x


BODIES: dict[str, Callable[[Any], Any]] = {body.__name__: body for body in (lenet, alexnet, googlenet, resnet20, dense)}
