"""Build a network by its name. A new network of `train` is entered here."""

from collections.abc import Callable

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.batch_normalization import FusedBatchNormalization
from orchestrator.trainer.models.convolution import Convolution2D
from orchestrator.trainer.models.depthwise_convolution import DepthwiseConvolution2D
from orchestrator.trainer.models.inception import googlenet
from orchestrator.trainer.models.inception_v3 import inception_v3
from orchestrator.trainer.models.lenet_alexnet_vgg import alexnet, lenet, vgg16
from orchestrator.trainer.models.mlp import dense
from orchestrator.trainer.models.mobilenet import mobilenet_v2
from orchestrator.trainer.models.pooling import MaxPooling2D
from orchestrator.trainer.models.resnet import resnet20, resnet50, resnet101

# From images (batch, height, width, channels) of about unit variance, and a number of classes, to logits.
Network = Callable[[tf.Tensor, int], tf.Tensor]
IMAGES: dict[str, Network] = {
    network.__name__: network
    for network in (lenet, alexnet, googlenet, vgg16, inception_v3, resnet20, resnet50, resnet101, mobilenet_v2)
}
TABLES: dict[str, Network] = {"dense": dense}


def build(name: str, image_size: int, channels: int, classes: int, seed: int) -> keras.Model:
    """Build a network from uint8 images to logits.

    A network for tables takes float32 rows (batch, 1, 1, channels) as images, unscaled. Weights and the initial states
    of dropout are drawn from ``seed`` alone, so every rank builds the same ones.

    Args:
        name: Key of IMAGES or TABLES.
        image_size: Height and width in pixels.
        channels: Channels of an image, or features of a table.
        classes: Number of classes.
        seed: Of all random numbers.

    Returns:
        Model from (batch, image_size, image_size, channels) to float32 logits (batch, classes).
    """
    keras.utils.set_random_seed(seed)
    inputs = layers.Input((image_size, image_size, channels), dtype="float32" if name in TABLES else "uint8")
    if name in TABLES:
        return keras.Model(inputs, TABLES[name](inputs, classes), name=name)
    x = layers.Rescaling(1 / 64.0, offset=-2.0)(inputs)  # about unit variance, without constants per data set
    return keras.Model(inputs, IMAGES[name](x, classes), name=name)


def offset_dropout_seeds(model: keras.Model, rank: int) -> None:
    """Give each rank other dropout masks; call it after every broadcast of rank 0's variables.

    Keras keeps (seed, number of draws) in an integer variable per layer, and TensorFlow draws from nothing else.
    """
    for variable in model.variables:
        if not keras.backend.is_float_dtype(variable.dtype):
            variable.assign_add([rank, 0])


def prepare_for_xla(model: keras.Model) -> None:
    """Let every layer compute by operations that XLA can compile; call it before a step is traced."""
    for layer in model.layers:
        if isinstance(layer, (Convolution2D, DepthwiseConvolution2D, FusedBatchNormalization)):
            layer.whole = False
        if isinstance(layer, MaxPooling2D):
            layer.by_slices = True
