"""A Horovod program that proves a cluster: who is there, that an allreduce sums, what it costs per message size.

And what a step costs: a cluster that sends fast while it computes nothing may do so by keeping its cores busy.

Bus bandwidth as nccl-tests defines it (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the allreduce of S bytes over
n ranks moves 2(n-1)/n * S over every link.
"""

import os
import socket
import statistics
import sys
import time
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Hello, HelloRank, HelloSize

SIZES = [4 * 16**exponent for exponent in range(7)]  # 4 bytes to 64 MiB
REPEATS = 7
LIMIT = 10.0  # seconds that steps are repeated for: nodes may be emulated
# Of a step, in the proportions of ResNet-50's on 32 images of 128 px: 102 MB of gradients for 257 GFLOP.
GROUPS, GROUP_BYTES, SIDE = 4, 4 << 20, 1728  # 17 MB for products of square matrices: 4 x 2 x 1728^3 = 41 GFLOP


def main(run_directory: Path) -> None:
    tf.config.threading.set_inter_op_parallelism_threads(2)  # as the trainer: one computes, one sends
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
    total = float(hvd.allreduce(tf.constant(float(hvd.rank() + 1)), op=hvd.Sum, name="proof"))
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}: allreduce gives {total:g}", flush=True)
    mine = HelloRank(rank=hvd.rank(), host=socket.gethostname(), local_rank=hvd.local_rank(), allreduce_sum=total)
    ranks = hvd.allgather_object(mine)
    sizes = [_measure(size) for size in SIZES]
    step_seconds = _step()
    expected = hvd.size() * (hvd.size() + 1) / 2
    if hvd.rank() == 0:
        found = Hello(size=hvd.size(), expected_sum=expected, ranks=ranks, sizes=sizes, step_seconds=step_seconds)
        found.write(run_directory / "hello.json")
    if total != expected:
        sys.exit(f"rank {hvd.rank()}: the allreduce of 1 to {hvd.size()} gave {total:g}, expected {expected:g}")


def _measure(size: int) -> HelloSize:
    message = tf.zeros([size // 4], tf.float32)
    seconds = []
    for _repeat in range(REPEATS + 1):  # the first one negotiates and allocates
        started = time.perf_counter()
        hvd.allreduce(message, op=hvd.Sum, name=f"message.{size}").numpy()
        seconds.append(time.perf_counter() - started)
    latency = statistics.median(seconds[1:])
    moved = 2 * (hvd.size() - 1) / hvd.size() * size
    return HelloSize(bytes=size, latency_seconds=latency, bus_bandwidth=moved / latency)


def _step() -> float:
    """Seconds of a step on the slowest rank, the shortest of a few: what else goes on beside them comes and goes."""
    matrix, gradient = tf.fill([SIDE, SIDE], 1.0 / SIDE), tf.zeros([GROUP_BYTES // 4])  # a product is the matrix again
    steps: list[float] = []
    while len(steps) <= REPEATS and sum(steps) < LIMIT:  # the first one traces and negotiates
        started = time.perf_counter()
        _computed_and_sent(matrix, gradient).numpy()
        steps.append(max(hvd.allgather_object(time.perf_counter() - started)))
    return min(steps)


@tf.function
def _computed_and_sent(matrix: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """A product after another; when each is there a group of gradients leaves, and the next is computed meanwhile."""
    sent = []
    for number in range(GROUPS):
        matrix = tf.matmul(matrix, matrix)
        with tf.control_dependencies([matrix]):
            sent.append(hvd.allreduce(tf.identity(gradient), op=hvd.Sum, name=f"step.{number}")[0])
    return matrix[0, 0] + tf.add_n(sent)


if __name__ == "__main__":
    main(Path(os.environ["ORCHESTRATOR_RUN_DIR"]))
