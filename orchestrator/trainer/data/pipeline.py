"""A tf.data graph that is traced once and then fed with the samples of every epoch.

A data set made in Python is traced when it is made: each would leave a graph behind, and take the time to make it. Here
the making itself is a compiled function of what the data set is to give.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

Make = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]


class Pipeline:
    """``make`` turns numbers, int64 (n), and seeds, int32 (n, 2), into what is wanted of these samples, of ``size``."""

    def __init__(self, make: Make, size: int) -> None:
        self._make, self._size = make, size
        numbers, seeds = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 2], tf.int32)
        self._traced = tf.function(self._variant, input_signature=[numbers, seeds], autograph=False)

    def _variant(self, numbers: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        made = self._make(numbers, seeds)
        self._spec = made.element_spec
        return tf.data.experimental.to_variant(made)

    def __call__(self, numbers: np.ndarray, seed: int) -> tf.data.Dataset:
        """Of the samples ``numbers``, in that order; a sample's own seed is drawn by ``seed`` and its number."""
        seeds = np.random.default_rng(seed).integers(2**31, size=(self._size, 2), dtype=np.int32)[numbers]
        with tf.device("CPU:0"):
            variant = self._traced(numbers.astype(np.int64), seeds)
            return tf.data.experimental.from_variant(variant, self._spec)


class Here:
    """A batch that is where it is wanted."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def result(self) -> Any:
        return self._batch


def ahead(batches: Iterable[Any], device: "str | None") -> "Iterator[Future[Any] | Here]":
    """The same batches, on their way to ``device``: the next is copied while the one before is trained on.

    Each is there with its ``result()``, for which the device may first end what it does: only to ask for the next is to
    wait for data. Without a device they are given as they come. A fault shows one batch earlier.
    """
    if device is None:
        yield from map(Here, batches)
        return
    with ThreadPoolExecutor(1) as pool:
        copied = (pool.submit(_copied, batch, device) for batch in batches)
        current = next(copied, None)
        while current is not None:
            following = next(copied, None)
            yield current
            current = following


def _copied(batch: Any, device: str) -> Any:
    with tf.device(device):
        return tf.nest.map_structure(tf.identity, batch)


def accelerator() -> "str | None":
    """The rank's GPU, if it has one."""
    return "GPU:0" if tf.config.get_visible_devices("GPU") else None


def options(workers: int) -> tf.data.Options:
    """For ``workers`` threads of its own: TensorFlow's are for the training, and as few as its ops ask for.

    All has its number of threads already, and the autotuner sleeps for seconds before it lets an epoch end.
    """
    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.threading.private_threadpool_size = workers
    return chosen
