"""The networks by name, built of Keras layers. Each module names the papers that its own are from."""

from collections.abc import Callable

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.blocks import FusedBatchNormalization
from orchestrator.trainer.models.classic import alexnet, lenet, vgg16
from orchestrator.trainer.models.dense import dense
from orchestrator.trainer.models.drawing import fill
from orchestrator.trainer.models.inception import googlenet
from orchestrator.trainer.models.inception_v3 import inception_v3
from orchestrator.trainer.models.mobilenet import mobilenet_v2
from orchestrator.trainer.models.residual import resnet20, resnet50, resnet101

__all__ = ["IMAGES", "TABLES", "FusedBatchNormalization", "build", "draw_apart"]

Network = Callable[[tf.Tensor, int, int], tf.Tensor]  # (what is about of unit variance, pixels, classes) -> logits
IMAGES: dict[str, Network] = {
    network.__name__: network
    for network in (lenet, alexnet, googlenet, vgg16, inception_v3, resnet20, resnet50, resnet101, mobilenet_v2)
}
TABLES: dict[str, Network] = {"dense": dense}


def build(name: str, image_size: int, channels: int, classes: int, seed: int) -> keras.Model:
    """The network ``name``, uint8 images (batch, size, size, channels) to float32 logits (batch, classes).

    One for tables has float32 rows (batch, 1, 1, channels) for images, which are taken as they are. Weights and the
    beginnings of dropout masks are drawn from ``seed`` alone, so every rank builds the same ones.
    """
    keras.utils.set_random_seed(seed)
    inputs = layers.Input((image_size, image_size, channels), dtype="float32" if name in TABLES else "uint8")
    if name in TABLES:
        model = keras.Model(inputs, TABLES[name](inputs, image_size, classes), name=name)
    else:
        x = layers.Rescaling(1 / 64.0, offset=-2.0)(inputs)  # to about unit variance, without per-data-set constants
        model = keras.Model(inputs, IMAGES[name](x, image_size, classes), name=name)
    fill(model)
    return model


def draw_apart(model: keras.Model, rank: int) -> None:
    """Let each rank's dropout drop other units: after every broadcast of what rank 0 has, which is what it began with.

    Keras keeps (seed, number of draws) in an integer variable per layer, and TensorFlow draws from nothing else.
    """
    for variable in model.variables:
        if not keras.backend.is_float_dtype(variable.dtype):
            variable.assign_add([rank, 0])
