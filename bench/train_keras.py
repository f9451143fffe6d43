"""Train a network by `model.fit` with the defaults of Keras: run by ``bench.train`` in a container.

Prints the images/s of every epoch but the first as JSON, from the callback at its start to the callback at its end.
"""

import argparse
import json
import time

import numpy as np

from bench import train_networks
from bench.train_networks import keras


class Epochs(keras.callbacks.Callback):
    """Callback that records the seconds of every epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.seconds.append(time.perf_counter() - self._begun)


def data(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    count, shape = args.batch * args.steps, (args.pixels, args.pixels, args.channels)
    labels = random.integers(0, args.classes, count, np.int64)
    if args.model == "dense":
        return random.standard_normal((count, *shape), np.float32), labels
    return random.integers(0, 256, (count, *shape), np.uint8), labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name in ("pixels", "channels", "classes", "batch", "steps", "epochs"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    keras.utils.set_random_seed(1)
    model = train_networks.build(args.model, args.pixels, args.channels, args.classes)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)
    images, labels = data(args)
    epochs = Epochs()
    model.fit(images, labels, batch_size=args.batch, epochs=args.epochs, callbacks=[epochs])
    rates = [len(images) / seconds for seconds in epochs.seconds[1:]]
    parameters = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    print("\n" + json.dumps({"images_per_second": rates, "parameters": parameters, "version": keras.__version__}))


if __name__ == "__main__":
    main()
