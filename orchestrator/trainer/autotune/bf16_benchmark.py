"""Benchmark of bfloat16 against float32 on this machine's CPU.

A step of two convolutions, forward and backward, of the kind that dominates residual networks.
"""

import statistics
import timeit
from collections.abc import Callable

import tensorflow as tf

from orchestrator.trainer.models.convolution import Convolution2D

SHAPE = (16, 16, 16, 128)
ROUNDS = 5


def speedup(threads: int) -> float:
    """Return the speed in bfloat16 relative to float32; TensorFlow must not have computed anything before."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    steps = [_step(precision) for precision in ("float32", "mixed_bfloat16")]
    rounds = [[timeit.timeit(step, number=1) for step in steps] for _ in range(ROUNDS + 1)][1:]  # the first one traces
    return statistics.median(plain / short for plain, short in rounds)


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
