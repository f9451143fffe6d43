"""Horovod with TensorFlow and Keras 3, as Horovod's page "Horovod with TensorFlow" has it for TensorFlow 2.

Each rank computes gradients under ``hvd.DistributedGradientTape``, which averages them over all ranks; rank 0's
variables are broadcast after the first step, so that the optimizer's exist.
"""

import sys
from pathlib import Path
from typing import Any

import horovod
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.engines import engine_loop, keras_engine, step_inputs, weight_files


class HorovodTensorflow(keras_engine.KerasEngine):
    """A rank of Horovod."""

    def __init__(self, config: TrainConfig, initial: weight_files.Weights) -> None:
        super().__init__(config, initial, hvd.size(), horovod=horovod.__version__)
        self.compression = hvd.Compression.fp16 if config.compression == "fp16" else hvd.Compression.none
        self.first_batch = True

    def train(self, batch: Any, rate: float) -> np.ndarray:
        self.optimizer.learning_rate = rate
        scores = self._training_step(*batch)
        if self.first_batch:  # not within the step, as on the page: the second step would be compiled again
            hvd.broadcast_variables(self.model.variables, root_rank=0)
            hvd.broadcast_variables(self.optimizer.variables, root_rank=0)
            self.first_batch = False
        return np.asarray(scores, np.float64)

    @tf.function
    def _training_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = keras_engine.loss(self.model, self.config, labels, logits)
        tape = hvd.DistributedGradientTape(tape, compression=self.compression)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return keras_engine.scores(labels, logits)

    def sum(self, numbers: np.ndarray) -> np.ndarray:
        return hvd.allreduce(tf.constant(numbers), op=hvd.Sum, name="sum").numpy()


def main(run_directory: Path) -> None:
    config = step_inputs.read_config(run_directory)
    hvd.init()
    keras_engine.prepare(config, hvd.local_rank())
    course = step_inputs.load(config, hvd.rank(), hvd.size())
    engine = HorovodTensorflow(config, weight_files.initial(run_directory, hvd.rank()))
    engine_loop.run(run_directory, course, engine)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
