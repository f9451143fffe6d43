"""Horovod program that proves a cluster: its ranks, that an allreduce sums, and its cost for each message size.

It also measures a training step: a cluster that communicates fast while it computes nothing may do so by keeping its
cores busy. ``trainer/check_size`` sets how much of both is measured.

Bus bandwidth as nccl-tests defines it (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the allreduce of S bytes over
n ranks moves 2(n-1)/n * S over every link.
"""

import os
import socket
import statistics
import sys
import time
from pathlib import Path

if os.environ.get("ORCHESTRATOR_RANK", "").endswith(":0"):
    print("loading TensorFlow and Horovod", flush=True)  # takes minutes on a slow node

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import CheckMessage, CheckRank, CheckResult
from orchestrator.trainer import check_size
from orchestrator.trainer.check_size import MESSAGE_SIZES


class Clock:
    """Seconds since construction, the maximum over all ranks and so equal on every rank."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def seconds(self) -> float:
        return allreduce_max(time.perf_counter() - self._started)


def main(run_directory: Path, max_work: float) -> None:
    tf.config.threading.set_inter_op_parallelism_threads(2)  # as in the trainer: one computes, one sends
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
    total = float(hvd.allreduce(tf.constant(float(hvd.rank() + 1)), op=hvd.Sum, name="proof"))
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}: allreduce gives {total:g}", flush=True)
    mine = CheckRank(rank=hvd.rank(), host=socket.gethostname(), local_rank=hvd.local_rank(), allreduce_sum=total)
    ranks = hvd.allgather_object(mine)
    clock = Clock()
    sizes = _measure_messages(clock)
    side, step_seconds = _measure_step(clock, check_size.side(max_work))
    expected = hvd.size() * (hvd.size() + 1) / 2
    if hvd.rank() == 0:
        CheckResult(
            size=hvd.size(),
            expected_sum=expected,
            ranks=ranks,
            sizes=sizes,
            step_seconds=step_seconds,
            step_work=check_size.work(side),
        ).write(run_directory / "check.json")
    if total != expected:
        sys.exit(f"rank {hvd.rank()}: the allreduce of 1 to {hvd.size()} gave {total:g}, expected {expected:g}")


def allreduce_max(seconds: float) -> float:
    with tf.device("CPU:0"):
        return float(hvd.allreduce(tf.constant(seconds), op=hvd.Max, name="slowest"))


def say(text: str) -> None:
    if hvd.rank() == 0:
        print(text, flush=True)


def _measure_messages(clock: Clock) -> list[CheckMessage]:
    """Measure message sizes in ascending order for as long as MESSAGE_SECONDS allow."""
    say(f"measuring messages of up to {MESSAGE_SIZES[-1] >> 20} MiB, for up to {check_size.MESSAGE_SECONDS:g} s")
    messages: list[CheckMessage] = []
    for size in MESSAGE_SIZES:
        longest = check_size.next_message_seconds([message.latency_seconds for message in messages])
        if clock.seconds() + 2 * longest > check_size.MESSAGE_SECONDS:
            say(f"messages of {size:,} bytes and more are skipped: each may take {longest:.1f} s")
            break
        messages.append(_measure_message(size))
    return messages


def _measure_message(size: int) -> CheckMessage:
    message = tf.zeros([size // 4], tf.float32)
    first = allreduce_max(_allreduce_seconds(message))  # negotiates and allocates
    latency = allreduce_max(statistics.median(_allreduce_seconds(message) for _ in range(check_size.repeats(first))))
    moved = 2 * (hvd.size() - 1) / hvd.size() * size
    return CheckMessage(bytes=size, latency_seconds=latency, bus_bandwidth=moved / latency)


def _allreduce_seconds(message: tf.Tensor) -> float:
    started = time.perf_counter()
    hvd.allreduce(message, op=hvd.Sum, name=f"message.{message.shape[0]}").numpy()
    return time.perf_counter() - started


def _measure_step(clock: Clock, largest_side: int) -> tuple[int, float]:
    """Return side and seconds of a step on the slowest rank: the minimum of several, since background load varies."""
    left = check_size.SECONDS - clock.seconds()
    say(f"measuring a step that computes while its gradients travel, for up to {left:.1f} s")
    side, first = check_size.grow(_step_seconds, left / check_size.STEPS, largest_side)
    say(f"{_describe_step(side)}: {first:.3f} s")
    steps = [first]
    while len(steps) <= check_size.REPEATS and clock.seconds() + steps[-1] < check_size.SECONDS:
        steps.append(_step_seconds(side))
    return side, min(steps)


def _describe_step(side: int) -> str:
    flops, sent, share = 8 * side**3, check_size.GROUPS * check_size.group_bytes(side), check_size.work(side)
    why = f" ({share:.2%} of the whole: more would take too long)" if share < 1 else ""
    return f"a step of {flops / 1e9:.3g} GFLOP and {sent / 1e6:.3g} MB{why}"


def _step_seconds(side: int) -> float:
    matrix, gradient = tf.fill([side, side], 1.0 / side), tf.zeros([check_size.group_bytes(side) // 4])
    started = time.perf_counter()
    _compute_and_send(matrix, gradient).numpy()
    return allreduce_max(time.perf_counter() - started)


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([None])], autograph=False)
def _compute_and_send(matrix: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """Compute a chain of matrix products, and send a group of gradients after each while the next is computed.

    It is traced once for steps of any size. The square of a matrix whose entries are all 1/side is the matrix itself.
    """
    sent = []
    for number in range(check_size.GROUPS):
        matrix = tf.matmul(matrix, matrix)
        with tf.control_dependencies([matrix]):
            sent.append(hvd.allreduce(tf.identity(gradient), op=hvd.Sum, name=f"step.{number}")[0])
    return matrix[0, 0] + tf.add_n(sent)


if __name__ == "__main__":
    main(Path(os.environ["ORCHESTRATOR_RUN_DIR"]), float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
