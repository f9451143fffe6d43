"""The networks by name, built of Keras layers. Each module names the papers that its own are from."""

from collections.abc import Callable

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.blocks import FusedBatchNormalization
from orchestrator.trainer.models.classic import lenet
from orchestrator.trainer.models.residual import resnet20, resnet50, resnet101

__all__ = ["NETWORKS", "FusedBatchNormalization", "build"]

# (images of about unit variance, their size in pixels, classes) -> logits
NETWORKS: dict[str, Callable[[tf.Tensor, int, int], tf.Tensor]] = {
    network.__name__: network for network in (lenet, resnet20, resnet50, resnet101)
}


def build(name: str, image_size: int, channels: int, classes: int, seed: int) -> keras.Model:
    """The network ``name``, uint8 images (batch, size, size, channels) to float32 logits (batch, classes).

    Weights are drawn from ``seed`` alone, so every rank builds the same ones.
    """
    keras.utils.set_random_seed(seed)
    images = layers.Input((image_size, image_size, channels), dtype="uint8")
    x = layers.Rescaling(1 / 64.0, offset=-2.0)(images)  # to about unit variance, without per-data-set constants
    return keras.Model(images, NETWORKS[name](x, image_size, classes), name=name)
