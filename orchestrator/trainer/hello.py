"""A Horovod program that proves a cluster: who is there, that an allreduce sums, and what it costs per message size.

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


def main(run_directory: Path) -> None:
    hvd.init()
    total = float(hvd.allreduce(tf.constant(float(hvd.rank() + 1)), op=hvd.Sum, name="proof"))
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}: allreduce gives {total:g}", flush=True)
    mine = HelloRank(rank=hvd.rank(), host=socket.gethostname(), local_rank=hvd.local_rank(), allreduce_sum=total)
    ranks = hvd.allgather_object(mine)
    sizes = [_measure(size) for size in SIZES]
    expected = hvd.size() * (hvd.size() + 1) / 2
    if hvd.rank() == 0:
        Hello(size=hvd.size(), expected_sum=expected, ranks=ranks, sizes=sizes).write(run_directory / "hello.json")
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


if __name__ == "__main__":
    main(Path(os.environ["ORCHESTRATOR_RUN_DIR"]))
