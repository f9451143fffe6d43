"""Batch normalisation, with the addition of a shortcut and the ReLU that follow it in one layer.

On CPUs a training step does all of it by one operation (docker/tensorflow_operations/normalization.cc), which reads the
images half as often. It is in the trainer image; without it, and on GPUs, TensorFlow's operations do the same.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from orchestrator.trainer.tensorflow_operations import library

CEILINGS = {"linear": -1.0, "relu": math.inf, "relu6": 6.0}  # the largest output; a negative one stands for no ReLU
MOST_PARTS = 2  # of a gradient that the operation adds up: those of a block's next convolution and of its shortcut


@keras.saving.register_keras_serializable(package="orchestrator")
class Normalization(layers.BatchNormalization):
    """Keras' layer, then the addition of a second input, if there is one, and an activation: a key of CEILINGS."""

    def __init__(self, activation: str = "linear", **settings: Any) -> None:
        super().__init__(**settings)
        self.activation = activation

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "activation": self.activation}

    def build(self, input_shape: Any) -> None:
        super().build(input_shape[0] if isinstance(input_shape[0], Sequence) else input_shape)
        self.input_spec = None  # that of Keras allows one input

    def compute_output_spec(self, inputs: Any, **options: Any) -> keras.KerasTensor:
        first = inputs[0] if isinstance(inputs, list) else inputs
        return keras.KerasTensor(first.shape, self.compute_dtype)

    def call(
        self, inputs: "tf.Tensor | list[tf.Tensor]", training: "bool | None" = None, mask: "tf.Tensor | None" = None
    ) -> tf.Tensor:
        """Normalise a batch, add the second input and apply the activation.

        Args:
            inputs: Images (batch, height, width, channels), alone or with others of the same shape to add.
            training: Use the batch's statistics, and update the moving ones.
            mask: Unused.

        Returns:
            Outputs of the same shape.
        """
        images, *added = inputs if isinstance(inputs, list) else [inputs]
        outputs = self.normalize(images, training=bool(training))
        for other in added:
            outputs += other
        return keras.activations.get(self.activation)(outputs)

    def normalize(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        return super().call(images, training=training)


@keras.saving.register_keras_serializable(package="orchestrator")
class FusedBatchNormalization(Normalization):
    """Normalization by fused operations: this project's for training on CPUs, otherwise TensorFlow's.

    Keras 3 uses neither. On 2 cores (ResNet-50, 128 px, batch 32, float32), TensorFlow's gives 25.9 images/s and Keras'
    own layer 20.4. ``whole`` allows the operation of this project, which XLA cannot compile.
    """

    whole = True

    def call(
        self, inputs: "tf.Tensor | list[tf.Tensor]", training: "bool | None" = None, mask: "tf.Tensor | None" = None
    ) -> tf.Tensor:
        images, *added = inputs if isinstance(inputs, list) else [inputs]
        training = bool(training) and self.trainable
        usable = training and self.whole and len(added) <= 1 and images.dtype in library.DTYPES
        operations = library.load() if usable else None
        if operations is None:
            return super().call(inputs, training=training)
        gamma, beta = (tf.convert_to_tensor(variable) for variable in (self.gamma, self.beta))
        outputs, mean, variance = operations.orchestrator_normalize(
            x=images, gamma=gamma, beta=beta, side=added, ceiling=CEILINGS[self.activation], epsilon=self.epsilon
        )
        for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance * _correction(images))):
            moving.assign(tf.convert_to_tensor(moving) * self.momentum + new * (1 - self.momentum))
        return outputs

    def normalize(self, images: tf.Tensor, training: bool) -> tf.Tensor:
        variables = (self.gamma, self.beta, self.moving_mean, self.moving_variance)
        scale_to_variance = [tf.cast(tf.convert_to_tensor(variable), tf.float32) for variable in variables]
        share = 1.0 - self.momentum if training else 1.0
        outputs, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            images, *scale_to_variance, epsilon=self.epsilon, is_training=training, exponential_avg_factor=share
        )
        if training:
            self.moving_mean.assign(mean)
            self.moving_variance.assign(variance)
        return outputs


def _correction(images: tf.Tensor) -> "np.float32 | tf.Tensor":
    """Return Bessel's correction of the variance, as in TensorFlow's operation; a number if the batch size is known."""
    if (size := images.shape.num_elements()) is None:
        count = tf.cast(tf.size(images) // images.shape[-1], tf.float32)
        return count / tf.maximum(count - 1, 1)
    known = np.float32(size // images.shape[-1])
    return known / np.maximum(known - np.float32(1), np.float32(1))


@tf.RegisterGradient("OrchestratorNormalize")
def _gradient(operation: tf.Operation, upstream: tf.Tensor, *_: tf.Tensor) -> list[tf.Tensor]:
    images, gamma, _, *added = operation.inputs
    outputs, mean, variance = operation.outputs
    settings = {name: operation.get_attr(name) for name in ("ceiling", "epsilon")}
    parts = _parts(upstream) if added else [upstream]
    gradients = library.load().orchestrator_normalize_gradient(
        dy=parts, y=outputs, x=images, gamma=gamma, mean=mean, variance=variance, added=len(added), **settings
    )
    return [*gradients[:3], *gradients.dside]


def _parts(upstream: tf.Tensor) -> list[tf.Tensor]:
    """Return the two gradients whose sum ``upstream`` is, which the operation adds up, or ``upstream`` alone."""
    if tf.executing_eagerly() or upstream.op.type != "AddN" or len(upstream.op.inputs) > MOST_PARTS:
        return [upstream]
    return list(upstream.op.inputs)


def normalization(activation: str = "linear", gamma: str = "ones", epsilon: float = 1e-5) -> FusedBatchNormalization:
    """Return a layer for images, or for a list of images and others of the same shape to add after normalisation.

    Args:
        activation: Key of CEILINGS.
        gamma: Initializer of the scale.
        epsilon: Added to the variance.

    Returns:
        The layer.
    """
    return FusedBatchNormalization(activation, momentum=0.9, epsilon=epsilon, gamma_initializer=gamma)
