"""Choice of the layers' arithmetic, by the gain on every rank's device.

Layers in 16 bits keep their weights in float32 (Micikevicius et al. 2018, "Mixed Precision Training"), and in bfloat16
reach the accuracy of float32 with the same recipe (Kalamkar et al. 2019, "A Study of BFLOAT16 for Deep Learning
Training", arXiv 1905.12322). A GPU is judged by its compute capability. CPUs with the same instructions differ: of two
that were measured, one was 1.7 times as fast with bfloat16, the other lost a quarter. So a separate process measures it
once per node.

Some CPUs claim AMX but kill a program that uses it with SIGILL. If that happens to the benchmark, TensorFlow is kept
from using AMX.
"""

import os
from contextlib import suppress

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Precision
from orchestrator.schema.training import MIN_SPEEDUP
from orchestrator.trainer.autotune import bf16_probe

ISA_VARIABLE, ISA_WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
NO_GAIN: dict[str, float] = {"gain": 0.0, "limited": True}


def choose(precision: Precision, threads: int) -> Precision:
    """Return the precision to train with: ``precision``, or for "auto" a choice equal on all ranks. A collective call.

    Afterwards TensorFlow uses no instructions that this CPU lacks; call it before TensorFlow runs anything.
    """
    gpus = tf.config.get_visible_devices("GPU")
    measured = NO_GAIN if precision == "float32" else _node_gain(threads, not gpus)
    if precision == "auto":
        best = _gpu_precision(gpus[0]) if gpus else "bfloat16" if measured["gain"] >= MIN_SPEEDUP else "float32"
        precision = best if len(set(hvd.allgather_object(best))) == 1 else "float32"
    if not gpus and (precision == "float32" or measured["limited"]):
        os.environ.setdefault(ISA_VARIABLE, ISA_WITHOUT_AMX)
    return precision


def _gpu_precision(gpu: "tf.config.PhysicalDevice") -> Precision:
    """Return the best precision of a GPU.

    Tensor Cores take float16 from compute capability 7.0 on and bfloat16 from 8.0 on (CUDA programming guide).
    """
    capability = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    return "bfloat16" if capability >= (8, 0) else "float16" if capability >= (7, 0) else "float32"


def _node_gain(threads: int, by_cpu: bool) -> dict[str, float]:
    """Return the ``gain`` by bfloat16, and whether TensorFlow must be ``limited``; measured by the node's first rank.

    Ranks that do not compute on their CPU only wait for the others, since nodes may differ.
    """
    entry = bf16_probe.entry(threads)
    if by_cpu and hvd.local_rank() == 0 and not entry.read(dict):
        entry.write(_measure(threads))
    with tf.device("CPU:0"):
        hvd.allreduce(tf.zeros([]), name="measured")  # waits for the value
    return (entry.read(dict) if by_cpu else None) or NO_GAIN


def _measure(threads: int) -> dict[str, float]:
    """Run the benchmark, again without AMX if it fails.

    The gain is 0 if the benchmark times out, which a limit would not repair, or if the CPU lacks bfloat16 instructions.
    """
    if not bf16_probe.may_have_bfloat16():
        return NO_GAIN
    with suppress(TimeoutError):
        for limits in ({}, {ISA_VARIABLE: ISA_WITHOUT_AMX}):
            gain = bf16_probe.run_benchmark(threads, limits)
            if gain is not None:
                return {"gain": gain, "limited": bool(limits)}
    return NO_GAIN
