"""Horovod program that proves a cluster: its ranks, that an allreduce sums, and its cost for each message size.

It also measures a training step: a cluster that communicates fast while it computes nothing may do so by keeping its
cores busy. ``message_and_step_sizes`` sets how much of both is measured.

Bus bandwidth as nccl-tests defines it (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the allreduce of S bytes over
n ranks moves 2(n-1)/n * S over every link.
"""

import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module, util
from pathlib import Path
from typing import Any

FRAMEWORK = "TensorFlow" if util.find_spec("tensorflow") else "PyTorch"  # the image has one of them
if os.environ.get("ORCHESTRATOR_RANK", "").endswith(":0"):
    print(f"loading {FRAMEWORK} and Horovod", flush=True)  # takes minutes on a slow node

from orchestrator.schema import CheckMessage, CheckRank, CheckResult
from orchestrator.trainer.check import message_and_step_sizes
from orchestrator.trainer.check.message_and_step_sizes import GROUPS, MESSAGE_SIZES

framework: Any = import_module(f"orchestrator.trainer.check.{FRAMEWORK.lower()}_measurements")
hvd = framework.hvd


def main(run_directory: Path, max_work: float) -> None:
    os.environ.setdefault("HOROVOD_CYCLE_ON_ENQUEUE", "1")  # as in training
    framework.start()
    total = framework.allreduce(hvd.rank() + 1.0, hvd.Sum, "proof")
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}: allreduce gives {total:g}", flush=True)
    result = CheckRank(rank=hvd.rank(), host=socket.gethostname(), local_rank=hvd.local_rank(), allreduce_sum=total)
    ranks = hvd.allgather_object(result)
    started = time.perf_counter()
    sizes = _measure_messages(started)
    side, step_seconds = _measure_step(started, message_and_step_sizes.side(max_work))
    expected = hvd.size() * (hvd.size() + 1) / 2
    if hvd.rank() == 0:
        CheckResult(
            size=hvd.size(),
            expected_sum=expected,
            ranks=ranks,
            sizes=sizes,
            step_seconds=step_seconds,
            step_work=message_and_step_sizes.work(side),
        ).write(run_directory / "check.json")
    if total != expected:
        sys.exit(f"rank {hvd.rank()}: the allreduce of 1 to {hvd.size()} gave {total:g}, expected {expected:g}")


def allreduce_max(seconds: float) -> float:
    return float(framework.allreduce(seconds, hvd.Max, "slowest"))


def _elapsed(started: float) -> float:
    """Return the seconds since ``started``, the maximum over all ranks and so equal on every rank."""
    return allreduce_max(time.perf_counter() - started)


def say(text: str) -> None:
    if hvd.rank() == 0:
        print(text, flush=True)


def _measure_messages(started: float) -> list[CheckMessage]:
    """Measure message sizes in ascending order for as long as MESSAGE_SECONDS allow."""
    seconds = message_and_step_sizes.MESSAGE_SECONDS
    say(f"measuring messages of up to {MESSAGE_SIZES[-1] >> 20} MiB, for up to {seconds:g} s")
    messages: list[CheckMessage] = []
    for size in MESSAGE_SIZES:
        longest = message_and_step_sizes.next_message_seconds([message.latency_seconds for message in messages])
        if _elapsed(started) + 2 * longest > seconds:
            say(f"messages of {size:,} bytes and more are skipped: each may take {longest:.1f} s")
            break
        messages.append(_measure_message(size))
    return messages


def _measure_message(size: int) -> CheckMessage:
    send = partial(_send, framework.ones([size // 4]), size)
    first = allreduce_max(_seconds(send))  # negotiates and allocates
    repeats, used = message_and_step_sizes.repeats(first), time.process_time()
    latency = allreduce_max(statistics.median(_seconds(send) for _ in range(repeats)))
    cpu = allreduce_max((time.process_time() - used) / repeats)
    moved = 2 * (hvd.size() - 1) / hvd.size() * size
    return CheckMessage(bytes=size, latency_seconds=latency, bus_bandwidth=moved / latency, cpu_seconds=cpu)


def _send(numbers: Any, size: int) -> None:
    """Send a message of ones; end the program if they do not add up to the number of ranks.

    It looks at one of the sums: copying all of them from a GPU would take longer than the allreduce.
    """
    total = float(hvd.allreduce(numbers, op=hvd.Sum, name=f"message.{size // 4}")[0])
    if total != hvd.size():
        sys.exit(f"rank {hvd.rank()}: the allreduce of {size:,} bytes of ones gave {total:g}, expected {hvd.size()}")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _measure_step(started: float, largest_side: int) -> tuple[int, float]:
    """Return side and seconds of a step on the slowest rank: the minimum of several, since background load varies."""
    limit = message_and_step_sizes.SECONDS
    remaining = limit - _elapsed(started)
    say(f"measuring a step that computes while its gradients are sent, for up to {remaining:.1f} s")
    side, first = message_and_step_sizes.grow(_step_seconds, remaining / message_and_step_sizes.STEPS, largest_side)
    share, sent = message_and_step_sizes.work(side), GROUPS * message_and_step_sizes.group_bytes(side)
    why = f" ({share:.2%} of the whole: more would take too long)" if share < 1 else ""
    say(f"a step of {8 * side**3 / 1e9:.3g} GFLOP and {sent / 1e6:.3g} MB{why}: {first:.3f} s")
    steps = [first]
    while len(steps) <= message_and_step_sizes.REPEATS and _elapsed(started) + steps[-1] < limit:
        steps.append(_step_seconds(side))
    return side, min(steps)


def _step_seconds(side: int) -> float:
    return allreduce_max(_seconds(framework.step(side)))


if __name__ == "__main__":
    main(Path(os.environ["ORCHESTRATOR_RUN_DIR"]), float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
