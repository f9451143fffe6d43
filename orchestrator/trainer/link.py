"""How gradients travel where nobody said: in 16 bits where the nodes and the link between them gain by it.

Gradients of layers that compute in bfloat16 may travel in 16 bits: they were rounded to as many before. Whether that is
faster depends on the link and on the nodes, which must round and sum. It is measured once between these ranks and kept
beside the runs, so that the same run twice ends with the same bits.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator import __version__
from orchestrator.schema import Compression, TrainConfig
from orchestrator.schema.file import replaced
from orchestrator.trainer import reduction
from orchestrator.trainer.data import pipeline

PIECE = 1 << 20  # bytes of a gradient in float32, of which a group is tried
ROUNDS, LIMIT = 6, 2.0  # how often each way is tried, unless that takes so many seconds
GAIN = 1.15  # below, 16 bits are not worth the second rounding


def compression(config: TrainConfig, directory: Path) -> Compression:
    """How gradients travel: as ``config`` says, and for "auto" in 16 bits where nothing is lost and time is gained.

    ``directory`` is the run's. Every rank calls it, once the precision is settled.
    """
    if config.compression != "auto":
        return config.compression
    if hvd.size() == 1 or config.adasum or config.precision != "bfloat16":
        return "none"
    return "bf16" if _kept(directory.parent, config.threads, lambda: gain(config)) >= GAIN else "none"


def _kept(place: Path, threads: int, measure: Callable[[], float]) -> float:
    """What was measured between these ranks before; else what is measured now, kept by rank 0."""
    device = pipeline.accelerator() or f"{threads} threads"
    ranks = hvd.allgather_object([os.uname().nodename, device, os.environ.get("HOROVOD_CONTROLLER")])
    path = place / f".link-{__version__}-{hashlib.sha256(json.dumps(ranks).encode()).hexdigest()[:12]}.json"
    known = hvd.broadcast_object(_read(path) if hvd.rank() == 0 else None, root_rank=0)
    found = measure() if known is None else float(known)
    if known is None and hvd.rank() == 0:
        with replaced(path, 0o644) as file:
            file.write(json.dumps({"ranks": ranks, "gain": found}).encode() + b"\n")
    return found


def _read(path: Path) -> "float | None":
    try:
        return float(json.loads(path.read_text())["gain"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def gain(config: TrainConfig) -> float:
    """How many times as fast gradients travel in 16 bits as in 32, on the slowest rank; the same on every rank."""
    exchanges = {kind: _exchange(config.model_copy(update={"compression": kind})) for kind in ("none", "bf16")}
    gradients = [tf.ones([PIECE // 4], tf.bfloat16)] * (reduction.GROUP_BYTES // PIECE)
    _tried(exchanges, gradients)  # traces, and opens connections
    tried: list[dict[str, float]] = []
    while len(tried) < ROUNDS and sum(sum(seconds.values()) for seconds in tried) <= LIMIT:
        tried.append(_tried(exchanges, gradients))
    none, half = (min(seconds[kind] for seconds in tried) for kind in exchanges)  # what else goes on comes and goes
    return none / half


def _tried(exchanges: dict[str, Callable[..., tf.Tensor]], gradients: list[tf.Tensor]) -> dict[str, float]:
    """Seconds that each takes on the slowest rank."""
    found = {}
    for kind, exchange in exchanges.items():
        begun = time.perf_counter()
        exchange(*gradients).numpy()
        found[kind] = reduction.slowest(time.perf_counter() - begun)
    return found


def _exchange(config: TrainConfig) -> Callable[..., tf.Tensor]:
    """Compiled as a step's is, of gradients as they are there: computed in bfloat16 and widened for the variables."""

    @tf.function(autograph=False)
    def exchange(*gradients: tf.Tensor) -> tf.Tensor:
        widened = [tf.cast(gradient, tf.float32) for gradient in gradients]
        found = reduction.means(reduction.as_computed(widened, config), config, f"link.{config.compression}")
        return tf.add_n([mean[0] for mean in found])

    return exchange
