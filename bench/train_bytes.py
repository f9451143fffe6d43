"""Bytes that the parts of a training step other than convolutions must at least move, for ``bench.train_roofline``."""

import collections
import math

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.batch_normalization import FusedBatchNormalization

# Of an activation: read for its statistics, read and written normalised; back, it and its gradient are read twice and
# the other gradient written. ReLU costs nothing more. What is added is read, and its gradient written.
NORMALISED_PASSES, ADDED_PASSES = 8, 2
RELU_PASSES = 3  # of what a convolution or dense layer has added bias and ReLU to; all are back
COPYING = (  # layers that read their inputs and write their outputs, and back do the same with gradients
    layers.MaxPooling2D,
    layers.AveragePooling2D,
    layers.GlobalAveragePooling2D,
    layers.Dropout,
    layers.Concatenate,
)
COPIED_PASSES = 2
VARIABLE_BYTES = 16  # of a weight and its momentum in float32, read and written


def of_step(model: keras.Model, batch: int, dtype: str) -> int:
    """Return the bytes that everything but convolutions must at least move in a step."""
    size: int = tf.as_dtype(dtype).size
    copied = 2 * size if size < 4 else size  # the gradient read, and in 16 bits the weights written as layers read them
    activations = batch * (sum(map(moved, model.layers)) + added_gradients(model))
    return size * activations + (VARIABLE_BYTES + copied) * int(model.count_params())


def moved(layer: layers.Layer) -> int:
    """Return the numbers that a layer must at least read or write for each image, with their gradients."""
    inputs, outputs = (sum(map(numbers, keras.tree.flatten(tensors))) for tensors in (layer.input, layer.output))
    if isinstance(layer, FusedBatchNormalization):
        return NORMALISED_PASSES * outputs + ADDED_PASSES * (inputs - outputs)
    if isinstance(layer, COPYING):
        return COPIED_PASSES * (inputs + outputs)
    return RELU_PASSES * outputs if getattr(layer, "activation", None) is keras.activations.relu else 0


def added_gradients(model: keras.Model) -> int:
    """Return the numbers for each image that are read and written to add the gradients of tensors with several uses."""
    tensors = [tensor for layer in model.layers for tensor in keras.tree.flatten(layer.input)]
    uses = collections.Counter(map(id, tensors))
    sizes = {id(tensor): numbers(tensor) for tensor in tensors}
    return sum((count + 1) * sizes[tensor] for tensor, count in uses.items() if count > 1)


def numbers(tensor: keras.KerasTensor) -> int:
    """Return the numbers of a tensor for each image."""
    return math.prod(tensor.shape[1:])
