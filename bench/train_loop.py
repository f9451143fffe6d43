"""Train a network by the shortest loop that is fast: run by ``bench.train`` in a container.

One compiled step on a constant batch, SGD with momentum: no input, no metrics, no schedule, no other ranks. Prints the
images/s of every round as JSON. BENCH_KERAS chooses the Keras of the network, see ``bench.train_networks``.
"""

import argparse
import json
import time

import tensorflow as tf

from bench import train_networks
from bench.train_networks import keras

WARM_UP = 3  # steps


def rates(args: argparse.Namespace) -> list[float]:
    """Return the images/s of every round."""
    keras.utils.set_random_seed(1)
    if args.precision != "float32":
        keras.mixed_precision.set_global_policy(f"mixed_{args.precision}")
    model = train_networks.build(args.model, args.pixels, args.channels, args.classes)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    (inputs,) = model.inputs
    images = tf.cast(tf.random.uniform([args.batch, *inputs.shape[1:]], 0, 256), inputs.dtype)
    labels = tf.random.uniform([args.batch], 0, args.classes, tf.int64)

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    for _ in range(WARM_UP):
        step().numpy()
    measured = []
    for _ in range(args.rounds):
        started = time.perf_counter()
        for _ in range(args.steps):
            loss = step()
        loss.numpy()
        measured.append(args.steps * args.batch / (time.perf_counter() - started))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name in ("pixels", "channels", "classes", "batch", "steps", "rounds"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    print("\n" + json.dumps({"images_per_second": rates(parser.parse_args())}))


if __name__ == "__main__":
    main()
