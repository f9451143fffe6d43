"""tf.distribute's MultiWorkerMirroredStrategy, as in TensorFlow's tutorial "Custom training loop with Keras and
MultiWorkerMirroredStrategy".

Every worker has a copy of the variables; gradients are summed over all workers by a ring of gRPC, and so every worker
divides its loss by the images of all of them.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data.in_memory import Arrays
from orchestrator.trainer.engines import engine_loop, keras_engine, step_inputs, weight_files


class TensorflowMultiworker(keras_engine.KerasEngine):
    """A worker of the strategy."""

    def __init__(self, config: TrainConfig, initial: weight_files.Weights, strategy: tf.distribute.Strategy) -> None:
        with strategy.scope():
            super().__init__(config, initial, strategy.num_replicas_in_sync)
            self.optimizer.build(self.model.trainable_variables)
        self.strategy = strategy

    def batches(self, split: Arrays, indices: Iterable[np.ndarray]) -> Iterable[Any]:
        return self.strategy.distribute_datasets_from_function(lambda _: keras_engine.dataset(split, indices))

    def train(self, batch: Any, rate: float) -> np.ndarray:
        self.optimizer.learning_rate = rate
        return np.asarray(self._training_step(batch), np.float64)

    @tf.function
    def _training_step(self, batch: Any) -> tf.Tensor:
        return self.strategy.run(self._replica_step, args=batch)

    def _replica_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = keras_engine.loss(self.model, self.config, labels, logits) / self.strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return keras_engine.scores(labels, logits)

    def evaluate(self, batch: Any) -> np.ndarray:
        """Return this worker's scores of a batch; the strategy gives an empty one while others have more batches."""
        if not any(map(len, self.strategy.experimental_local_results(batch[1]))):
            return np.zeros(4)  # convolutions fail on no image
        return np.asarray(self._evaluate_replica(batch), np.float64)

    @tf.function(reduce_retracing=True)
    def _evaluate_replica(self, batch: Any) -> tf.Tensor:
        return self.strategy.run(lambda images, labels: keras_engine.scores(labels, self.model(images)), args=batch)

    def sum(self, numbers: np.ndarray) -> np.ndarray:
        return self._sum(tf.constant(numbers)).numpy()

    @tf.function(reduce_retracing=True)
    def _sum(self, numbers: tf.Tensor) -> tf.Tensor:
        replicas = self.strategy.run(tf.identity, args=(numbers,))
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, replicas, axis=None)


def main(run_directory: Path) -> None:
    """Train as the worker that TF_CONFIG names."""
    config, task = step_inputs.read_config(run_directory), json.loads(os.environ["TF_CONFIG"])
    rank, world = task["task"]["index"], len(task["cluster"]["worker"])
    initial = weight_files.initial(run_directory, rank)
    keras_engine.prepare(config, int(os.environ["LOCAL_RANK"]))
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    engine = TensorflowMultiworker(config, initial, strategy)
    engine_loop.run(run_directory, step_inputs.load(config, rank, world), engine)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
