"""tf.data graph that is traced once and then fed with the samples of every epoch.

A data set built in Python is traced when it is built: each would leave a graph behind, and take the time to build it.
Here the construction itself is a compiled function of the samples.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

Make = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]


class Pipeline:
    """Traced function of samples, out of ``size``.

    ``make`` turns numbers, int64 (n), and seeds, int32 (n, 2), into a data set of these samples.
    """

    def __init__(self, make: Make, size: int) -> None:
        self._make, self._size = make, size
        numbers, seeds = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 2], tf.int32)
        self._traced = tf.function(self._variant, input_signature=[numbers, seeds], autograph=False)

    def _variant(self, numbers: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        dataset = self._make(numbers, seeds)
        self._spec = dataset.element_spec
        return tf.data.experimental.to_variant(dataset)

    def __call__(self, numbers: np.ndarray, seed: int) -> tf.data.Dataset:
        """Return the samples ``numbers`` in that order; a sample's own seed follows from ``seed`` and its number."""
        seeds = np.random.default_rng(seed).integers(2**31, size=(self._size, 2), dtype=np.int32)[numbers]
        with tf.device("CPU:0"):
            variant = self._traced(numbers.astype(np.int64), seeds)
            return tf.data.experimental.from_variant(variant, self._spec)


def prefetch_to_device(batches: Iterable[Any], device: "str | None") -> "Iterator[Future[Any]]":
    """Yield the same batches while they are copied to ``device``, the next during the training on the one before.

    Each is available by its ``result()``, for which the device may first finish its current work: only requesting the
    next batch waits for data. Without a device batches are passed on as they come. An error appears one batch earlier.
    """
    if device is None:
        for batch in batches:
            ready = Future[Any]()
            ready.set_result(batch)
            yield ready
        return
    with ThreadPoolExecutor(1) as pool:
        copied = (pool.submit(_copy_to, batch, device) for batch in batches)
        current = next(copied, None)
        while current is not None:
            following = next(copied, None)
            yield current
            current = following


def _copy_to(batch: Any, device: str) -> Any:
    with tf.device(device):
        return tf.nest.map_structure(tf.identity, batch)


def accelerator() -> "str | None":
    """Return the rank's GPU, if it has one."""
    return "GPU:0" if tf.config.get_visible_devices("GPU") else None


def options(workers: int, rewritten: bool) -> tf.data.Options:
    """Return options for ``workers`` private threads: TensorFlow's are for training, and as few as its operations use.

    The autotuner is off: every stage has its number of threads already, and it sleeps for seconds before an epoch can
    end. Unless ``rewritten``, so are rewrites of the graph: they save 3 % of the time of images that are decoded, and
    take some milliseconds in each epoch.
    """
    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.experimental_optimization.apply_default_optimizations = rewritten
    chosen.threading.private_threadpool_size = workers
    return chosen
