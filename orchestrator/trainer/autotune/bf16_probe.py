"""Run of the bfloat16 benchmark in a copy of this process, which may crash without harm.

The copy is a fork, so it need not import TensorFlow again, which takes a core 1 to 2 s. It must be made before
TensorFlow computes anything: a fork lacks the threads of the process.
"""

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection

from orchestrator.schema import TrainConfig
from orchestrator.trainer import cpu_model, gpu_of_rank
from orchestrator.trainer.autotune import measurements

SECONDS = 120  # to run two layers
FORK = multiprocessing.get_context("fork")
Running = tuple[multiprocessing.context.ForkProcess, Connection]
_started: list[Running] = []


def entry(threads: int) -> measurements.Entry:
    """Return the entry in which the node's first rank stores the result."""
    return measurements.Entry("bfloat16", threads=threads)


def may_have_bfloat16() -> bool:
    """Check that the CPU has, or may have, bfloat16 instructions: AMX_BF16, AVX512_BF16, AVX-NE-CONVERT, Arm's BF16."""
    flags = cpu_model.instructions()
    return not flags or any("bf16" in flag or flag == "avx_ne_convert" for flag in flags)


def needed(config: TrainConfig) -> bool:
    """Check that this is the node's first rank, and that its run needs a result that the node does not have."""
    first = os.environ.get("HOROVOD_LOCAL_RANK", "0") == "0"  # the rank's wrapper sets it, also under MPI
    asks = first and config.precision != "float32" and not config.resume
    return bool(
        asks and may_have_bfloat16() and not gpu_of_rank.DEVICE.exists() and not entry(config.threads).read(dict)
    )


def start_in_background(config: TrainConfig) -> None:
    """Start the benchmark if it is needed."""
    if needed(config):
        _started.append(_fork(config.threads, {}))


def run_benchmark(threads: int, limits: Mapping[str, str]) -> "float | None":
    """Return the speedup measured in an environment with ``limits``; None if the benchmark crashes.

    Raises:
        TimeoutError: The benchmark takes longer than SECONDS.
    """
    process, result = _started.pop() if _started and not limits else _fork(threads, limits)
    try:
        if not result.poll(SECONDS):
            raise TimeoutError(f"the bfloat16 benchmark took longer than {SECONDS} s")
        return float(result.recv())
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _fork(threads: int, limits: Mapping[str, str]) -> Running:
    result, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_send_speedup, args=(sender, threads, limits), daemon=True)
    process.start()
    sender.close()
    return process, result


def _send_speedup(sender: Connection, threads: int, limits: Mapping[str, str]) -> None:
    from orchestrator.trainer.autotune import bf16_benchmark  # noqa: PLC0415  it imports TensorFlow

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ.update(limits)
    sender.send(bf16_benchmark.speedup(threads))
