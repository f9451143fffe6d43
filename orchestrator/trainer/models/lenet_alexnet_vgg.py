"""Networks of convolutions, pooling and fully connected layers only: lenet, alexnet, vgg16.

- LeNet-5: LeCun et al. 1998, "Gradient-based learning applied to document recognition" (Proceedings of the IEEE 86),
  section II-B and figure 2. As usual today: ReLU instead of the scaled tanh, max pooling instead of trainable averages,
  every map of C3 connected to all of S2 (table I connects some), and a softmax instead of distances to drawn
  characters.
- AlexNet: Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks" (arXiv 1404.5997), the
  one-tower form of Krizhevsky et al. 2012, "ImageNet Classification with Deep Convolutional Neural Networks" (NIPS).
- VGG16: Simonyan and Zisserman 2015, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (ICLR),
  table 1, configuration D. Its section 4.1 finds no gain from local response normalisation: no network here has it.
"""

import keras
import tensorflow as tf
from keras import layers

from orchestrator.trainer.models.pooling import MaxPooling2D
from orchestrator.trainer.models.shared_layers import convolution, hidden, logits

LENET_IMAGE = 32  # pixels; the paper pads its digits of 28 pixels to this size
VGG16_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def lenet(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build two 5x5 convolutions of 6 and 16 filters, each followed by pooling; then 120, 84 and ``classes`` units."""
    x = layers.Rescaling(1.275 / 4, offset=0.5375)(x)  # black is -0.1 and white 1.175, as in the paper
    x = convolution(x, 6, 5, padding="same" if x.shape[1] < LENET_IMAGE else "valid")
    x = MaxPooling2D(2)(x)
    x = MaxPooling2D(2)(convolution(x, 16, 5, padding="valid"))
    x = hidden(hidden(layers.Flatten()(x), 120), 84)
    return logits(x, classes, keras.initializers.GlorotUniform())


def alexnet(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build five convolutions, three of them followed by overlapping 3x3 pooling, then two hidden layers of 4096."""
    x = convolution(layers.ZeroPadding2D(2)(x), 64, 11, stride=4, padding="valid")
    x = convolution(MaxPooling2D(3, strides=2)(x), 192, 5)
    x = convolution(MaxPooling2D(3, strides=2)(x), 384, 3)
    x = convolution(convolution(x, 256, 3), 256, 3)
    x = layers.Flatten()(MaxPooling2D(3, strides=2)(x))
    for _ in range(2):
        x = hidden(layers.Dropout(0.5)(x), 4096)
    return logits(x, classes)


def vgg16(x: tf.Tensor, classes: int) -> tf.Tensor:
    """Build five stages of 3x3 convolutions, each halved by pooling, then two hidden layers of 4096.

    Pooling rounds up, which changes nothing at 224 pixels and leaves one pixel at 28.
    """
    for filters, count in VGG16_STAGES:
        for _ in range(count):
            x = convolution(x, filters, 3)
        x = MaxPooling2D(2, padding="same")(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dropout(0.5)(hidden(x, 4096))
    return logits(x, classes)
