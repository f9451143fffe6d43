"""Choice of Horovod's cycle time, measured on the nodes at the start of a run.

Horovod's background thread wakes once a cycle and talks to the other ranks even if there is no gradient, which takes
time from computing cores. A gradient waits for the next cycle. So a cycle is as short as a fixed share of a core
allows, whatever the node and the number of ranks. GPUs leave cores idle, and their steps are shorter.
"""

import os
import time

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.trainer.comm import allreduce

MEASURE_VARIABLE = "ORCHESTRATOR_MEASURE_CYCLE"  # in the environment of runs whose cycle time is to be chosen
CYCLE_VARIABLE = "HOROVOD_CYCLE_TIME"  # ms
SHARE, SHARE_BESIDE_GPU = 0.02, 0.1  # of a core, for the background thread while there is nothing to send
SHORTEST, LONGEST = 1.0, 25.0  # ms: Horovod's default; the longest that gained anything on CPUs
MEASUREMENTS, IDLE = 3, 0.1  # number of measurements, and the seconds of each


def tune() -> None:
    """Restart Horovod with the cycle time that suits these nodes, if it is to be measured. A collective call.

    Not with MPI, which cannot be started twice in a program (MPI 4.0, section 11.2.1).
    """
    if hvd.size() == 1 or MEASURE_VARIABLE not in os.environ or hvd.mpi_enabled():
        return
    share = SHARE_BESIDE_GPU if tf.config.get_visible_devices("GPU") else SHARE
    cycle = allreduce.allreduce_max(cycle_for(_cpu_per_cycle(float(os.environ[CYCLE_VARIABLE])), share))
    hvd.shutdown()
    os.environ[CYCLE_VARIABLE] = f"{cycle:g}"
    hvd.init()


def cycle_for(work: float, share: float) -> float:
    """Return the cycle time in ms, in halves, at which ``work`` seconds of CPU per cycle take ``share`` of a core."""
    return min(max(round(2e3 * work / share) / 2, SHORTEST), LONGEST)


def _cpu_per_cycle(cycle: float) -> float:
    """Measure the CPU seconds per cycle of this rank's background thread while idle; ``cycle`` in ms."""
    hvd.allreduce(tf.zeros([]), name="cycle.begin")
    return min(_measure_once(cycle) for _ in range(MEASUREMENTS))  # the minimum excludes other work of this process


def _measure_once(cycle: float) -> float:
    begun, used = time.perf_counter(), time.process_time()
    time.sleep(IDLE)
    cycles = (time.perf_counter() - begun) * 1e3 / max(cycle, SHORTEST)
    return (time.process_time() - used) / cycles
