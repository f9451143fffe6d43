"""One process with TensorFlow and Keras, as in Keras' guide "Writing a training loop from scratch in TensorFlow"."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from orchestrator.trainer.engines import engine_loop, keras_engine, step_inputs, weight_files


class Single(keras_engine.KerasEngine):
    """The only process."""

    splits_time = True

    def train(self, batch: Any, rate: float) -> np.ndarray:
        self.optimizer.learning_rate = rate
        return np.asarray(self._training_step(*batch), np.float64)

    @tf.function
    def _training_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = keras_engine.loss(self.model, self.config, labels, logits)
        gradients = tape.gradient(loss, self.model.trainable_weights)
        self.optimizer.apply(gradients, self.model.trainable_weights)
        return keras_engine.scores(labels, logits)


def main(run_directory: Path) -> None:
    config = step_inputs.read_config(run_directory)
    keras_engine.prepare(config, 0)
    course = step_inputs.load(config, 0, 1)
    engine_loop.run(run_directory, course, Single(config, weight_files.initial(run_directory, 0), 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
