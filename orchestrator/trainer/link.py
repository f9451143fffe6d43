"""What is chosen by measuring nodes and their link as a run begins, where nobody said: Horovod's cycle, and 16 bits.

Horovod's background thread wakes once a cycle, and talks to the others' whether there is a gradient or not: that is
time of cores which compute. A gradient waits for the next cycle. So a cycle is as short as a share of a core allows,
whatever the node and however many ranks there are. GPUs leave cores alone, and their steps are shorter.

Gradients of layers that compute in bfloat16 may travel in 16 bits: they were rounded to as many before. Whether that is
faster depends on the link and on the nodes, which must round and sum. It is measured once on these hosts and kept
beside the runs, so that the same run twice ends with the same bits.
"""

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Compression, TrainConfig
from orchestrator.trainer import reduction

ASKED = "ORCHESTRATOR_MEASURE_CYCLE"  # in the environment of runs whose cycle nobody chose
CYCLE = "HOROVOD_CYCLE_TIME"  # ms
SHARE, SHARE_BESIDE_GPU = 0.02, 0.1  # of a core, for the background thread while there is nothing to send
SHORTEST, LONGEST = 1.0, 25.0  # ms: Horovod's default; the longest that gained anything on CPUs
LOOKS, IDLE = 3, 0.1  # how often it is looked at, for so many seconds
SAMPLE, ROUNDS = 16 << 20, 3  # bytes of float32 gradients
GAIN = 1.15  # below, 16 bits are not worth the second rounding


def tune() -> None:
    """Start Horovod again with the cycle that suits these nodes, where it is to be measured. Every rank calls it.

    Not with MPI, which cannot be started twice in a program (MPI 4.0, section 11.2.1).
    """
    if hvd.size() == 1 or ASKED not in os.environ or hvd.mpi_enabled():
        return
    share = SHARE_BESIDE_GPU if tf.config.get_visible_devices("GPU") else SHARE
    cycle = _slowest(cycle_time(_work(float(os.environ[CYCLE])), share))
    hvd.shutdown()
    os.environ[CYCLE] = f"{cycle:g}"
    hvd.init()


def cycle_time(work: float, share: float) -> float:
    """Milliseconds of a cycle with ``work`` seconds of CPU, for it to take this ``share`` of a core; in halves."""
    return min(max(round(2e3 * work / share) / 2, SHORTEST), LONGEST)


def _work(cycle: float) -> float:
    """Seconds of CPU that the background thread of this rank needs per cycle (of so many ms), with nothing to send."""
    hvd.allreduce(tf.zeros([]), name="link.begin")
    return min(_look(cycle) for _ in range(LOOKS))  # what else goes on in this process comes and goes


def _look(cycle: float) -> float:
    begun, used = time.perf_counter(), time.process_time()
    time.sleep(IDLE)
    cycles = (time.perf_counter() - begun) * 1e3 / max(cycle, SHORTEST)
    return (time.process_time() - used) / cycles


def compression(config: TrainConfig, directory: Path) -> Compression:
    """How gradients travel: as ``config`` says, and for "auto" in 16 bits where nothing is lost and time is gained.

    ``directory`` is the run's. Every rank calls it, once the precision is settled.
    """
    if config.compression != "auto":
        return config.compression
    if hvd.size() == 1 or config.adasum or config.precision != "bfloat16":
        return "none"
    return "bf16" if _kept(directory.parent, lambda: gain(config)) >= GAIN else "none"


def _kept(place: Path, measure: Callable[[], float]) -> float:
    """What was measured on these hosts before; else what is measured now, kept by rank 0."""
    hosts = hvd.allgather_object(os.uname().nodename)
    path = place / f".link-{hashlib.sha256(json.dumps(hosts).encode()).hexdigest()[:12]}.json"
    known = hvd.broadcast_object(_read(path) if hvd.rank() == 0 else None, root_rank=0)
    found = measure() if known is None else float(known)
    if known is None and hvd.rank() == 0:
        path.with_suffix(".new").write_text(json.dumps({"hosts": hosts, "gain": found}) + "\n")
        path.with_suffix(".new").replace(path)
    return found


def _read(path: Path) -> "float | None":
    try:
        return float(json.loads(path.read_text())["gain"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def gain(config: TrainConfig) -> float:
    """How many times as fast gradients travel in 16 bits as in 32, on the slowest rank; the same on every rank."""
    ways = {kind: config.model_copy(update={"compression": kind}) for kind in ("none", "bf16")}
    seconds: dict[str, list[float]] = {kind: [] for kind in ways}
    numbers = [tf.ones([SAMPLE // 4])]
    for _ in range(1 + ROUNDS):  # the first one opens connections
        for kind, way in ways.items():
            begun = time.perf_counter()
            reduction.means(numbers, way, f"link.{kind}")[0][0].numpy()
            seconds[kind].append(_slowest(time.perf_counter() - begun))
    none, half = (statistics.median(seconds[kind][1:]) for kind in ("none", "bf16"))
    return none / half


def _slowest(mine: float) -> float:
    return max(hvd.allgather_object(mine))
