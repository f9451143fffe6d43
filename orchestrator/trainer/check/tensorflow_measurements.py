"""Messages and steps that `check` measures, with TensorFlow."""

from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.trainer import gpu_of_rank
from orchestrator.trainer.check import message_and_step_sizes

ones = tf.ones


def start() -> None:
    """Initialize Horovod, and choose the rank's GPU if its node has GPUs."""
    tf.config.threading.set_inter_op_parallelism_threads(2)  # as in the trainer: one computes, one sends
    hvd.init()
    gpu_of_rank.choose_for_tensorflow(hvd.local_rank())


def allreduce(value: float, op: Any, name: str) -> float:
    """Reduce a number of each rank by ``op``."""
    with tf.device("CPU:0"):
        return float(hvd.allreduce(tf.constant(value), op=op, name=name))


def step(side: int) -> Callable[[], object]:
    """Return a function that computes a step with matrices of ``side``, and returns once its gradients have arrived."""
    matrix, gradient = tf.fill([side, side], 1.0 / side), tf.zeros([message_and_step_sizes.group_bytes(side) // 4])
    return lambda: _compute_and_send(matrix, gradient).numpy()


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([None])], autograph=False)
def _compute_and_send(matrix: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """Compute a chain of matrix products, and send a group of gradients after each while the next is computed.

    It is traced once for steps of any size. The square of a matrix whose entries are all 1/side is the matrix itself.
    """
    sent = []
    for number in range(message_and_step_sizes.GROUPS):
        matrix = tf.matmul(matrix, matrix)
        with tf.control_dependencies([matrix]):
            sent.append(hvd.allreduce(tf.identity(gradient), op=hvd.Sum, name=f"step.{number}")[0])
    return matrix[0, 0] + tf.add_n(sent)
