"""Choice of the implementation of each convolution, measured once on rank 0's node.

Which one is faster depends on the CPU, the precision and the sizes, and no rule about instruction sets says it: so each
product of each convolution is timed by itself. All ranks use rank 0's choices, and a resumed run keeps its own, since
implementations differ in the last bits. What is measured is stored on the node, so that equal runs are equal.
"""

import collections
import time
import timeit
from collections.abc import Callable
from functools import partial

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer import cpu_model
from orchestrator.trainer.autotune import measurements
from orchestrator.trainer.models.convolution import KERNEL, PAIRS, Convolution2D, Geometry, Ways

LIMIT, TRIALS = 2.5, 2  # seconds after which no further convolution is measured, and times of each implementation
MIN_GAIN = 1.1  # of an implementation over the kernel
PAIRS_NEED = "avx512_bf16"  # without it, pairs are so slow that nothing else would be measured within LIMIT


def choose(config: TrainConfig, model: keras.Model, images: int) -> dict[str, str]:
    """Set the implementations of a model's convolutions; return them by geometry, in the order of :class:`Ways`.

    They are those of ``config``, or measured for passes of ``images`` images. A collective call.
    """
    layers = [layer for layer in model.layers if isinstance(layer, Convolution2D) and layer.has_geometry]
    choices = config.convolutions
    if choices is None:
        measurable = layers and not config.xla and not tf.config.get_visible_devices("GPU")
        measured = _measured(config, layers, images) if measurable and hvd.rank() == 0 else {}
        choices = hvd.broadcast_object(measured, root_rank=0) if hvd.size() > 1 else measured
    for layer in layers:
        if ways := choices.get(str(layer.geometry(layer.input.shape))):
            layer.ways = Ways(*ways.split())
    return choices


def _measured(config: TrainConfig, layers: list[Convolution2D], images: int) -> dict[str, str]:
    """Return the choices for these layers, and measure those that this node does not know: the longest first."""
    entry = measurements.Entry("convolutions", threads=config.threads, precision=config.precision, images=images)
    choices, started = entry.read(dict) or {}, time.perf_counter()
    counted = collections.Counter(layer.geometry(layer.input.shape) for layer in layers)
    longest = sorted(counted, key=lambda geometry: -counted[geometry] * geometry.operations)
    unknown = [geometry for geometry in longest if str(geometry) not in choices]
    for geometry in unknown:
        late = time.perf_counter() - started > LIMIT
        ways = geometry.default if late else fastest(geometry, images, layers[0].compute_dtype)
        choices[str(geometry)] = " ".join(ways)
    if unknown:
        entry.write(choices)
    return {str(geometry): choices[str(geometry)] for geometry in counted}


def fastest(geometry: Geometry, images: int, dtype: str) -> Ways:
    """Time the implementations of a convolution, and return the fastest ones."""
    x = tf.ones([images, geometry.rows, geometry.columns, geometry.channels], dtype)  # random ones take longer to draw
    kernel = tf.ones([geometry.height, geometry.width, geometry.channels, geometry.filters], dtype)
    operations = geometry.operations_of(kernel.shape, dtype)
    if PAIRS_NEED not in cpu_model.instructions():
        for by_name in operations.values():
            by_name.pop(PAIRS, None)
    upstream = operations["forward"][KERNEL](x, kernel)
    arguments = {"forward": (x, kernel), "inputs": (x, kernel, upstream), "weights": (x, upstream)}
    return Ways(**{name: _fastest(by_name, arguments[name]) for name, by_name in operations.items()})


def _fastest(by_name: dict[str, Callable[..., tf.Tensor]], arguments: tuple[tf.Tensor, ...]) -> str:
    if len(by_name) == 1:
        return KERNEL
    seconds = {name: _seconds(partial(operation, *arguments)) for name, operation in by_name.items()}
    best = min(seconds, key=lambda name: seconds[name])
    return best if seconds[best] * MIN_GAIN <= seconds[KERNEL] else KERNEL


def _seconds(operation: Callable[[], tf.Tensor]) -> float:
    """Return the least time of several, the first of which also prepares the operation."""
    return min(timeit.repeat(operation, number=1, repeat=1 + TRIALS))
