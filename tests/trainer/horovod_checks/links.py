"""Gloo's use of the network, seen from its sockets; the argument names the check to execute."""

import os
import socket
import statistics
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import psutil
import tensorflow as tf

from tests.trainer.horovod_checks import execute, named

MEBIBYTES, ROUNDS = 64, 15
BYTES_ACKED = 120  # offset in struct tcp_info of Linux; the received bytes follow


def check_interface_of_process_sets() -> None:
    """Ranks 0 and 1 of 3 form their own set."""
    members = hvd.add_process_set(hvd.ProcessSet([0, 1]))
    if members.included():
        hvd.allreduce(tf.ones(8), process_set=members)
    addresses = {connection.laddr.ip for connection in psutil.Process().net_connections("tcp4")}
    hvd.allreduce(tf.ones(1))  # keep every rank alive until the others have finished
    assert addresses == {"127.0.0.1"}, addresses


def check_both_directions_at_once() -> None:
    """Half-way through an exchange, a rank has received about as much as it has sent."""
    data = tf.zeros([hvd.size(), MEBIBYTES * 2**18])
    shares = sorted(_share(data) for _ in range(ROUNDS))
    assert statistics.median(shares) > 0.25, shares


def _share(data: tf.Tensor) -> float:
    """Exchange data; return the smaller direction's bytes over the larger's when half of both has moved."""
    trace, over = [_traffic()], threading.Event()
    watching = threading.Thread(target=lambda: trace.extend(iter(_sampled_traffic(over))))
    watching.start()
    hvd.alltoall(data)
    over.set()
    watching.join()
    start, end = trace[0], trace[-1]
    moved = [(sent - start[0], received - start[1]) for sent, received in trace]
    half = sum(end[way] - start[way] for way in (0, 1)) / 2
    sent, received = next(pair for pair in moved if sum(pair) >= half)
    return min(sent, received) / max(sent, received)


def _sampled_traffic(over: threading.Event) -> Iterator[tuple[int, int]]:
    while not over.wait(0.0005):
        yield _traffic()
    yield _traffic()


def _traffic() -> tuple[int, int]:
    """Return the bytes sent and received by all TCP sockets of this process."""
    counts = [_counts(int(path.name)) for path in Path("/proc/self/fd").iterdir() if _is_socket(path)]
    return sum(sent for sent, _ in counts), sum(received for _, received in counts)


def _is_socket(path: Path) -> bool:
    try:
        return str(path.readlink()).startswith("socket:")
    except OSError:
        return False


def _counts(descriptor: int) -> tuple[int, int]:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
        return struct.unpack_from("QQ", information, BYTES_ACKED)
    except OSError:
        return 0, 0


if __name__ == "__main__":
    execute({sys.argv[1]: named(globals())[sys.argv[1]]})
