"""Time the necessary parts of a training step: ``python -m bench.train_roofline MODEL PIXELS BATCH PRECISION THREADS``.

Run by ``bench.roofline`` in a container. Each convolution of the network is timed by itself, forward, to its inputs and
to its weights, by every implementation that is there: called again at once, whose data may be in the caches, and after
other data has replaced it there, as in a step. Memory is timed by an addition in place. Prints JSON.
"""

import collections
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from bench import train_bytes
from orchestrator.trainer.models import networks_by_name
from orchestrator.trainer.models.convolution import KERNEL, Convolution2D, Geometry, Operations
from orchestrator.trainer.models.depthwise_convolution import DepthwiseConvolution2D, to_images

TIMES = 8  # of each operation; the least time counts, which excludes other load
CLASSES, CHANNELS = 1000, 3
OPERATION = "operation"  # of this project
COPY_ELEMENTS = 1 << 27  # of each of two arrays: 1 GiB together is more than the largest caches (480 MiB) hold

Times = dict[str, dict[str, float]]  # milliseconds of each product of a convolution, by implementation


class Depthwise(Geometry):
    """Shape of a depthwise convolution, which has one filter for each channel."""

    def operations_of(self, kernel: tf.TensorShape, dtype: "tf.DType | str") -> dict[str, Operations]:
        where = {"strides": [1, self.stride, self.stride, 1], "padding": self.padding}
        to_inputs, to_weights = (
            tf.raw_ops.DepthwiseConv2dNativeBackpropInput,
            tf.raw_ops.DepthwiseConv2dNativeBackpropFilter,
        )
        return {
            "forward": {KERNEL: lambda x, k: tf.nn.depthwise_conv2d(x, k, **where)},
            "inputs": {
                KERNEL: lambda x, k, up: to_inputs(input_sizes=x.shape, filter=k, out_backprop=up, **where),
                OPERATION: lambda x, k, up: to_images(x.shape, k, up, self.stride, self.padding),
            },
            "weights": {KERNEL: lambda x, up: to_weights(input=x, filter_sizes=kernel, out_backprop=up, **where)},
        }


def convolutions(model: keras.Model) -> "collections.Counter[Geometry]":
    """Count the convolutions of a network by geometry; a dense layer is one of a single pixel."""
    layers = [layer for layer in model.layers if isinstance(layer, Convolution2D)]
    geometries = [layer.geometry(layer.input.shape) for layer in layers]
    for layer in model.layers:
        if isinstance(layer, DepthwiseConvolution2D):
            (height, width), (_, rows, columns, channels) = layer.kernel_size, layer.input.shape
            padding = layer.padding.upper()
            geometries.append(Depthwise(height, width, layer.strides[0], padding, rows, columns, channels, 1))
    dense = [layer for layer in model.layers if isinstance(layer, keras.layers.Dense)]
    geometries += [Geometry(1, 1, 1, "SAME", 1, 1, layer.input.shape[-1], layer.units) for layer in dense]
    return collections.Counter(geometries)


class Memory:
    """Two arrays that do not fit into the caches."""

    def __init__(self) -> None:
        self.total, self.other = tf.Variable(tf.zeros([COPY_ELEMENTS])), tf.ones([COPY_ELEMENTS])

    def read(self) -> None:
        """Read both, so that they replace all other data in the caches; nothing is left to be written back."""
        for array in (self.total, self.other):
            tf.reduce_sum(array).numpy()

    def bandwidth(self) -> float:
        """Return bytes per second of reading both and writing one of them."""
        seconds = milliseconds(lambda: self.total.assign_add(self.other)) / 1000
        return 3 * COPY_ELEMENTS * self.other.dtype.size / seconds


def milliseconds(operation: Callable[[], tf.Tensor], before: Callable[[], object] = lambda: None) -> float:
    """Return the least of several times, after one that is not counted. ``before`` is called before each."""
    operation()
    seconds = []
    for _ in range(TIMES):
        before()
        started = time.perf_counter()
        operation()
        seconds.append(time.perf_counter() - started)
    return 1000 * min(seconds)


def implementations(geometry: Geometry, batch: int, dtype: str, memory: Memory) -> "dict[str, Times]":
    """Return the times of a convolution: ``ms`` with data in the caches, ``from_memory_ms`` without."""
    size = [geometry.height, geometry.width, geometry.channels, geometry.filters]
    grid = [batch, geometry.rows, geometry.columns, geometry.channels]
    x, kernel = (tf.random.stateless_normal(shape, [1, 2], dtype=dtype) for shape in (grid, size))
    operations = geometry.operations_of(tf.TensorShape(size), dtype)
    upstream = operations["forward"][KERNEL](x, kernel)
    arguments = {"forward": (x, kernel), "inputs": (x, kernel, upstream), "weights": (x, upstream)}
    if geometry.channels == CHANNELS:
        del operations["inputs"]  # of the images, which need no gradient
    return {
        name: {
            what: {way: milliseconds(partial(run, *arguments[what]), before) for way, run in by_way.items()}
            for what, by_way in operations.items()
        }
        for name, before in (("ms", lambda: None), ("from_memory_ms", memory.read))
    }


def main(name: str, pixels: int, batch: int, precision: str, threads: int) -> dict[str, Any]:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = networks_by_name.build(name, pixels, CHANNELS, CLASSES, 1)
    memory = Memory()
    rows = [
        {**geometry._asdict(), "count": count, "gflop": 2e-9 * batch * geometry.operations,
         **implementations(geometry, batch, precision, memory)}
        for geometry, count in convolutions(model).items()
    ]  # fmt: skip
    moved = train_bytes.of_step(model, batch, precision)
    return {"convolutions": rows, "bytes": moved, "bandwidth": memory.bandwidth()}


if __name__ == "__main__":
    print("\n" + json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))))
