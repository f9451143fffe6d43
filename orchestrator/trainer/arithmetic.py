"""Which arithmetic a run's layers use where nobody said: what every rank's device gains by it.

Layers in 16 bits keep their weights in float32 (Micikevicius et al. 2018, "Mixed Precision Training"), and in bfloat16
reach the accuracy of float32 with the same recipe (Kalamkar et al. 2019, "A Study of BFLOAT16 for Deep Learning
Training", arXiv 1905.12322). A GPU is known by its compute capability. CPUs with the same instructions differ: of two
that were measured one gained 1.7 by them, one lost a quarter. So a program of its own measures, once per node.

Some CPUs say that they have AMX, and end a program that uses it by SIGILL: where that program ends so, TensorFlow is
kept from it.
"""

import json
import os
import subprocess
from contextlib import suppress

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Precision
from orchestrator.trainer import probe

GAIN = 1.15  # by bfloat16 on the slowest rank: below, it is not worth the rounding
LIMIT, BEFORE_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
NOT_ASKED: dict[str, float] = {"gain": 0.0, "limited": True}


def settle(wanted: Precision, threads: int) -> Precision:
    """What to train with: as ``wanted``, and for "auto" the same on every rank. Every rank calls it.

    Afterwards TensorFlow uses no instructions that this CPU has not: before it has run anything.
    """
    gpus = tf.config.get_visible_devices("GPU")
    found = NOT_ASKED if wanted == "float32" else _measured(threads, not gpus)
    if wanted == "auto":
        mine = _of_gpu(gpus[0]) if gpus else "bfloat16" if found["gain"] >= GAIN else "float32"
        everyones = set(hvd.allgather_object(mine))
        wanted = mine if len(everyones) == 1 else "float32"
    if not gpus and (wanted == "float32" or found["limited"]):
        os.environ.setdefault(LIMIT, BEFORE_AMX)
    return wanted


def _of_gpu(gpu: "tf.config.PhysicalDevice") -> Precision:
    """Tensor Cores take float16 from compute capability 7.0 on and bfloat16 from 8.0 on (CUDA programming guide)."""
    capability = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    return "bfloat16" if capability >= (8, 0) else "float16" if capability >= (7, 0) else "float32"


def _measured(threads: int, by_cpu: bool) -> dict[str, float]:
    """The ``gain`` by bfloat16, and whether TensorFlow is to be ``limited``; measured by the node's first rank.

    Ranks that do not compute on their CPU merely wait for the others: nodes may differ.
    """
    path = probe.kept(threads)
    if by_cpu and hvd.local_rank() == 0 and not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(_measure(threads)))
        unfinished.replace(path)
    with tf.device("CPU:0"):
        hvd.allreduce(tf.zeros([]), name="measured")  # until it is there
    return json.loads(path.read_text()) if by_cpu else NOT_ASKED


def _measure(threads: int) -> dict[str, float]:
    """Where the program takes too long, nothing is gained: a limit would not make it faster.

    Nor is anything where a CPU has no instructions for it.
    """
    if not probe.worthwhile():
        return NOT_ASKED
    with suppress(subprocess.TimeoutExpired):
        for limits in ({}, {LIMIT: BEFORE_AMX}):
            gain = probe.said(threads, limits)
            if gain is not None:
                return {"gain": float(gain), "limited": bool(limits)}
    return NOT_ASKED
