"""Measure the least time of a first step: TensorFlow's import and one trace. Run by ``bench.train`` in a container.

    python -m bench.train_first_step MODEL PIXELS CHANNELS CLASSES BATCH BEGUN

BEGUN is the time of exec, seconds since the epoch. Prints the seconds of each part as JSON. The traced step is the
simplest training step of the same network: a tape, SGD.
"""

# ruff: noqa: E402 (imports are part of the measurement)

import sys
import time

BEGUN = float(sys.argv[6])

import keras
import tensorflow as tf

IMPORTED = time.time()

import json

from orchestrator.trainer.models import networks_by_name


def main(name: str, pixels: int, channels: int, classes: int, batch: int) -> None:
    """Build the network, and time trace and execution of one step.

    Args:
        name: The model.
        pixels: Height and width of the images.
        channels: Channels of the images.
        classes: Number of classes.
        batch: Images per step.
    """
    started = time.time()
    model = networks_by_name.build(name, pixels, channels, classes, 1)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True)))
        optimizer.apply(tape.gradient(loss, variables), model.trainable_variables)
        return loss

    built = time.time()
    images, labels = tf.zeros([batch, pixels, pixels, channels], tf.uint8), tf.zeros([batch], tf.int64)
    step.get_concrete_function(images, labels)
    traced = time.time()
    step(images, labels).numpy()
    seconds = {
        "import": IMPORTED - BEGUN,
        "build": built - started,
        "trace": traced - built,
        "execution": time.time() - traced,
    }
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:6]))
