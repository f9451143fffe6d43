"""Common part of TensorFlow's engines: threads, precision, input, loss and scores of a network of Keras' own layers."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer import gpu_of_rank
from orchestrator.trainer.data.in_memory import Arrays
from orchestrator.trainer.engines import keras_network
from orchestrator.trainer.engines.weight_files import Weights

OPERATIONS_AT_ONCE = 2  # as in train: with one thread, communication waits for the end of backpropagation


def prepare(config: TrainConfig, local_rank: int) -> None:
    """Set threads, GPU, precision and seed before TensorFlow creates anything."""
    tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    tf.config.threading.set_inter_op_parallelism_threads(OPERATIONS_AT_ONCE)
    gpu_of_rank.choose_for_tensorflow(local_rank)
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16" if config.precision == "bfloat16" else "float32")
    keras.utils.set_random_seed(config.seed)


def dataset(split: Arrays, indices: Iterable[np.ndarray]) -> tf.data.Dataset:
    """Return a pipeline of batches, which is made on this host while the step before is computed."""
    images, labels = (tf.constant(values) for values in split)

    def gather(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.gather(images, numbers % len(images)), tf.gather(labels, numbers)

    numbers = [*indices] or [np.empty(0, np.int64)]  # a rank may have nothing to evaluate
    samples = tf.data.Dataset.from_tensor_slices(np.concatenate(numbers))
    return samples.batch(max(1, len(numbers[0]))).map(gather).prefetch(tf.data.AUTOTUNE)


def loss(model: keras.Model, config: TrainConfig, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return the mean loss of a batch, with weight decay."""
    targets, smooth = tf.one_hot(labels, config.classes), config.label_smoothing
    entropy = keras.losses.categorical_crossentropy(targets, logits, from_logits=True, label_smoothing=smooth)
    return tf.reduce_mean(entropy) + tf.add_n(model.losses or [0.0])


def scores(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return (summed loss, top-1 hits, top-5 hits, images), float32."""
    entropy = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    top = [tf.reduce_sum(tf.cast(tf.math.in_top_k(labels, logits, k), tf.float32)) for k in (1, 5)]
    return tf.stack([entropy, *top, tf.cast(tf.shape(labels)[0], tf.float32)])


class KerasEngine:
    """A rank with a network and an optimizer of Keras; engines add how a step is made, and what ranks exchange."""

    splits_time = False

    def __init__(self, config: TrainConfig, initial: Weights, world: int, **versions: str) -> None:
        self.config, self.model = config, keras_network.build(config)
        # Weight decay is the layers' part, and the rate is set before every step.
        self.optimizer = keras.optimizers.SGD(0.0, momentum=config.momentum, nesterov=config.nesterov)
        self.world, self.versions = world, {"tensorflow": tf.__version__, "keras": keras.__version__, **versions}
        keras_network.assign(self.model, initial)

    def batches(self, split: Arrays, indices: Iterable[np.ndarray]) -> Iterable[Any]:
        return dataset(split, indices)

    def evaluate(self, batch: Any) -> np.ndarray:
        return np.asarray(self._evaluate(*batch), np.float64)

    @tf.function(reduce_retracing=True)
    def _evaluate(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return scores(labels, self.model(images, training=False))

    def sum(self, numbers: np.ndarray) -> np.ndarray:
        return numbers  # of one process; engines with several ranks add them up

    def average_statistics(self) -> None:
        statistics = [value for name, value in keras_network.variables(self.model).items() if "/moving_" in name]
        if statistics:
            values = np.concatenate([np.array(value, np.float64) for value in statistics])
            means = np.split(self.sum(values) / self.world, np.cumsum([value.shape[0] for value in statistics])[:-1])
            for value, mean in zip(statistics, means, strict=True):
                value.assign(mean)

    def weights(self) -> Weights:
        return keras_network.read(self.model)
