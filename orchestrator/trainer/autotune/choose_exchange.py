"""Choice of the exchange of gradients: 16 bits, and means within nodes first, if the ranks gain by them.

Gradients of layers that compute in bfloat16 may travel in 16 bits, since they were rounded to as many before. Whether
that is faster depends on the link, on the nodes, which must round and sum, and on the size of a message: between more
than two ranks 16 bits take two messages. Means within nodes first relieve the link between nodes, and take three
messages or four. Both are measured once between these ranks for each size, and stored in the directory of all runs, so
that the same run ends with the same bits every time.
"""

import os
from collections.abc import Callable
from pathlib import Path

import horovod.tensorflow as hvd

from orchestrator.schema import TrainConfig
from orchestrator.schema.training import MIN_SPEEDUP
from orchestrator.trainer import cpu_model
from orchestrator.trainer.autotune import measurements
from orchestrator.trainer.autotune.exchange_speed import measure_gain
from orchestrator.trainer.comm import allreduce, exchange
from orchestrator.trainer.data import pipeline

SMALLEST = 1 << 16  # bytes of a group that is measured


def choose(config: TrainConfig, directory: Path, size: int) -> TrainConfig:
    """Choose how gradients travel: in 16 bits if exact enough and faster, if ``compression`` is "auto".

    A collective call.

    Args:
        config: Configuration with the precision that was chosen.
        directory: Directory of the run.
        size: Bytes of all gradients in float32.

    Returns:
        ``config`` with a ``compression`` that is not "auto", and ``hierarchical`` that is not None.
    """
    if config.compression != "auto":
        return _choose_hierarchical(config, directory, size)
    whole = config.model_copy(update={"compression": "none", "hierarchical": False})
    if hvd.size() == 1 or config.adasum or config.precision != "bfloat16":
        return whole
    half = _choose_hierarchical(config.model_copy(update={"compression": "bf16"}), directory, size)
    return half if _gains("compression", whole, half, directory, size) else whole


def _choose_hierarchical(config: TrainConfig, directory: Path, size: int) -> TrainConfig:
    flat, near = (config.model_copy(update={"hierarchical": value}) for value in (False, True))
    if config.hierarchical is False or allreduce.route(near) != "hierarchical" or not exchange.find_neighbours():
        return flat
    gains = config.hierarchical or _gains(f"hierarchical-{config.compression}", flat, near, directory, size)
    return near if gains else flat


def _gains(name: str, before: TrainConfig, after: TrainConfig, directory: Path, size: int) -> bool:
    measured = measured_size(size)
    entry, runs = f"{name}-{measured >> 10}k", directory.parent
    speedup = measured_together(entry, runs, before.threads, lambda: measure_gain(before, after, measured))
    return speedup >= MIN_SPEEDUP


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
