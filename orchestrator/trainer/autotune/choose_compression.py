"""Choice of the gradients' compression: 16 bits if the nodes and the link between them gain by it.

Gradients of layers that compute in bfloat16 may travel in 16 bits, since they were rounded to as many before. Whether
that is faster depends on the link, on the nodes, which must round and sum, and on the size of a message: between more
than two ranks 16 bits take two messages. It is measured once between these ranks for each size, and stored in the
directory of all runs, so that the same run ends with the same bits every time.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Compression, TrainConfig
from orchestrator.schema.training import MIN_SPEEDUP
from orchestrator.trainer import cpu_model
from orchestrator.trainer.autotune import measurements
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.data import pipeline

PIECE = 1 << 20  # bytes of a gradient in float32; a group of these is measured
SMALLEST = 1 << 16  # bytes of a group that is measured
ROUNDS, LIMIT = 6, 2.0  # trials of each kind, and the seconds after which no more begin


def choose(config: TrainConfig, directory: Path, size: int) -> Compression:
    """Choose the compression of the gradients: for "auto" 16 bits if exact enough and faster. A collective call.

    Args:
        config: Configuration with the precision that was chosen.
        directory: Directory of the run.
        size: Bytes of all gradients in float32.

    Returns:
        The compression: that of ``config`` if it is not "auto".
    """
    if config.compression != "auto":
        return config.compression
    if hvd.size() == 1 or config.adasum or config.precision != "bfloat16":
        return "none"
    measured = measured_size(size)
    name = f"compression-{measured >> 10}k"
    speedup = measured_together(name, directory.parent, config.threads, lambda: measure_gain(config, measured))
    return "bf16" if speedup >= MIN_SPEEDUP else "none"


def measured_together(name: str, directory: Path, threads: int, measure: Callable[[], float]) -> float:
    """Return what these ranks measured before, or measure it and store it in ``directory``. A collective call.

    ``measure`` is one, too, and returns the same value on every rank. ``threads`` count on ranks without a GPU.
    """
    device, controller = pipeline.accelerator() or threads, os.environ.get("HOROVOD_CONTROLLER")
    hardware = [os.uname().nodename, cpu_model.kind(), device, controller]
    entry = measurements.Entry(name, directory, ranks=hvd.allgather_object(hardware))
    value = hvd.broadcast_object(entry.read(float), root_rank=0)
    if value is None:
        value = measure()
        if hvd.rank() == 0:
            entry.write(value)
    return value


def measured_size(size: int) -> int:
    """Return the bytes of a group that stands for gradients of ``size`` bytes: the next power of two, within limits."""
    return min(max(1 << (size - 1).bit_length(), SMALLEST), allreduce.GROUP_BYTES)


def measure_gain(config: TrainConfig, size: int) -> float:
    """Measure the speedup of 16-bit gradients over 32-bit ones on the slowest rank; the same on every rank.

    ``size`` is that of the group of gradients, in bytes of float32.
    """
    exchanges = {kind: _exchange(config.model_copy(update={"compression": kind})) for kind in ("none", "bf16")}
    piece = min(PIECE, size)
    gradients = [tf.ones([piece // 4], tf.bfloat16)] * (size // piece)
    _run_trial(exchanges, gradients)  # traces, and opens connections
    trials: list[dict[str, float]] = []
    while len(trials) < ROUNDS and sum(sum(seconds.values()) for seconds in trials) <= LIMIT:
        trials.append(_run_trial(exchanges, gradients))
    # The minimum excludes background load.
    none, half = (min(seconds[kind] for seconds in trials) for kind in exchanges)
    return none / half


def _run_trial(exchanges: dict[str, Callable[..., tf.Tensor]], gradients: list[tf.Tensor]) -> dict[str, float]:
    """Return the seconds of each exchange on the slowest rank."""
    seconds = {}
    for kind, exchange in exchanges.items():
        started = time.perf_counter()
        exchange(*gradients).numpy()
        seconds[kind] = max(hvd.allgather_object(time.perf_counter() - started))
    return seconds


def _exchange(config: TrainConfig) -> Callable[..., tf.Tensor]:
    """Compile an exchange as in a step, of gradients computed in bfloat16 and widened for the variables."""

    @tf.function(autograph=False)
    def exchange(*gradients: tf.Tensor) -> tf.Tensor:
        widened = [tf.cast(gradient, tf.float32) for gradient in gradients]
        means = allreduce.means(allreduce.before_upcast(widened, config), config, f"link.{config.compression}")
        return tf.add_n([tf.cast(part[0], tf.float32) for mean in means for part in allreduce.sources(mean)])

    return exchange
