"""tf.distribute's ParameterServerStrategy, as in TensorFlow's tutorial "Parameter server training".

The chief schedules steps on workers, which read variables from the parameter servers and send gradients there by gRPC.
No worker waits for another: an update applies the gradient of one batch, computed from weights that may be older. So
the learning rate does not grow with the number of workers. A step is one batch of every worker, as with other engines.
"""

import json
import os
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from orchestrator.launch_layout import CHIEF, WORKER
from orchestrator.trainer.data.in_memory import Arrays
from orchestrator.trainer.engines import keras_engine, step_inputs, weight_files
from orchestrator.trainer.engines.engine_results import Report
from orchestrator.trainer.engines.step_inputs import Course


class Chief(keras_engine.KerasEngine):
    """The process that schedules."""

    def __init__(self, course: Course, initial: weight_files.Weights, strategy: tf.distribute.Strategy) -> None:
        with strategy.scope():
            super().__init__(course.config, initial, course.world)
            self.optimizer.build(self.model.trainable_variables)
        self.strategy, self.coordinator = strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)
        self.train_split, self.test_split = (self._on_workers(split) for split in (course.train, course.test))

    def _on_workers(self, split: Arrays) -> Any:
        """Return an iterator on every worker of the whole split, from which the numbers of a batch choose."""
        whole = self.coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.from_tensors(split).repeat())
        return iter(whole)

    def schedule(self, batches: "list[np.ndarray]", rates: "list[float]") -> np.ndarray:
        """Train these batches, and return the sums of their scores when all are done."""
        step, split = self._training_step, self.train_split
        results = [
            self.coordinator.schedule(step, args=(split, tf.constant(numbers), tf.constant(rate)))
            for numbers, rate in zip(batches, rates, strict=True)
        ]
        return self._sums(results)

    def evaluate_all(self, batches: "list[np.ndarray]") -> np.ndarray:
        """Evaluate these batches, and return the sums of their scores."""
        step, split = self._test_step, self.test_split
        return self._sums([self.coordinator.schedule(step, args=(split, tf.constant(part))) for part in batches])

    def _sums(self, results: "list[tf.distribute.coordinator.RemoteValue]") -> np.ndarray:
        self.coordinator.join()
        return np.sum([np.asarray(result.fetch(), np.float64) for result in results], axis=0)

    @tf.function(reduce_retracing=True)
    def _training_step(self, split: Any, numbers: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        images, labels = _batch(next(split), numbers)
        return self.strategy.run(self._replica_step, args=(images, labels, rate))

    def _replica_step(self, images: tf.Tensor, labels: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = keras_engine.loss(self.model, self.config, labels, logits)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.learning_rate = rate
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return keras_engine.scores(labels, logits)

    @tf.function(reduce_retracing=True)
    def _test_step(self, split: Any, numbers: tf.Tensor) -> tf.Tensor:
        images, labels = _batch(next(split), numbers)
        return self.strategy.run(lambda: keras_engine.scores(labels, self.model(images)))


def _batch(split: "tuple[tf.Tensor, tf.Tensor]", numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    images, labels = split
    return tf.gather(images, numbers % tf.shape(images, tf.int64)[0]), tf.gather(labels, numbers)


def run(run_directory: Path, course: Course, chief: Chief, hosts: list[str]) -> None:
    """Train to the end of the course; the first step, in which workers compile, is waited for apart."""
    report = Report(run_directory, course, chief, hosts)
    of_ranks = [replace(course, rank=rank) for rank in range(course.world)]
    for epoch in course.epochs:
        report.begin(epoch)
        sums, steps = np.zeros(4), np.stack([rank.batches(epoch) for rank in of_ranks], axis=1)
        for part in filter(len, np.split(steps, [0 if report.steps else 1])):
            started, rates = time.perf_counter(), [course.rate(report.steps + step) for step in range(len(part))]
            sums += chief.schedule([*chain(*part)], [rate for rate in rates for _ in of_ranks])
            seconds = (time.perf_counter() - started) / len(part)
            for _ in part:
                report.step(0.0, seconds, sums)
        report.trained()
        started = time.perf_counter()
        test = chief.evaluate_all([*chain(*(rank.test_batches() for rank in of_ranks))])
        report.add(sums, test, time.perf_counter() - started)
        if report.reached:
            break
    report.end()


def main(run_directory: Path) -> None:
    """Train as the chief, or serve as the worker or parameter server that TF_CONFIG names."""
    config, roles = step_inputs.read_config(run_directory), json.loads(os.environ["TF_CONFIG"])
    keras_engine.prepare(config, int(os.environ["LOCAL_RANK"]))
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type != CHIEF:
        server = tf.distribute.Server(
            cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc"
        )
        server.join()
    hosts = [address.rpartition(":")[0] for address in roles["cluster"][WORKER]]
    course = step_inputs.load(config, 0, len(hosts), scale=1)
    chief = Chief(course, weight_files.initial(run_directory, 0), tf.distribute.ParameterServerStrategy(cluster))
    run(run_directory, course, chief, hosts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
