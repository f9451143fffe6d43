"""Benchmark of bfloat16 against float32 on this machine's CPU.

``python -m orchestrator.trainer.autotune.bf16_benchmark THREADS`` prints the speedup, measured on a step of two
convolutions, forward and backward, of the kind that dominates residual networks.
"""

# ruff: noqa: E402 (garbage collection would take a sixth of TensorFlow's import time for nothing)

import gc
import statistics
import sys
import timeit
from collections.abc import Callable

gc.disable()

import tensorflow as tf

from orchestrator.trainer.models.convolution import Convolution2D

SHAPE = (16, 16, 16, 128)
ROUNDS = 5


def main(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    steps = [_step(precision) for precision in ("float32", "mixed_bfloat16")]
    rounds = [[timeit.timeit(step, number=1) for step in steps] for _ in range(ROUNDS + 1)][1:]  # the first one traces
    print(statistics.median(plain / short for plain, short in rounds))


def _step(precision: str) -> Callable[[], object]:
    layers = [Convolution2D(128, 3, padding="same", dtype=precision), Convolution2D(512, 1, dtype=precision)]
    images = tf.random.stateless_normal(SHAPE, [1, 2])
    for layer in layers:
        layer.build(SHAPE)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            outputs = images
            for layer in layers:
                outputs = layer(outputs)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32))
        return tf.add_n([tf.reduce_sum(g) for g in tape.gradient(loss, [layer.kernel.value for layer in layers])])

    return lambda: step().numpy()


if __name__ == "__main__":
    main(int(sys.argv[1]))
