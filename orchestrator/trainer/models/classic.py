"""Networks of convolutions, pooling and fully connected layers alone: lenet.

LeNet-5: LeCun et al. 1998, "Gradient-based learning applied to document recognition" (Proc. IEEE 86), section II-B and
figure 2. As usual today: ReLU for the scaled tanh, maxima for trainable averages, every map of C3 joined to all of S2
(table I joins some) and a softmax for the distances to drawn characters.
"""

import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.blocks import convolution, hidden, logits

LENET_IMAGE = 32  # pixels; the paper's 28 pixel digits stand in a frame of as many


def lenet(x: tf.Tensor, image_size: int, classes: int) -> tf.Tensor:
    """Two 5x5 convolutions of 6 and 16 filters, each followed by pooling; then 120, 84 and as many units as classes."""
    x = layers.Rescaling(1.275 / 4, offset=0.5375)(x)  # black is -0.1 and white 1.175, as in the paper
    x = convolution(x, 6, 5, padding="same" if image_size < LENET_IMAGE else "valid")
    x = layers.MaxPooling2D(2)(x)
    x = layers.MaxPooling2D(2)(convolution(x, 16, 5, padding="valid"))
    return logits(hidden(hidden(layers.Flatten()(x), 120), 84), classes)
