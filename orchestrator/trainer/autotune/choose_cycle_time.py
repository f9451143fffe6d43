"""Choice of Horovod's cycle time, measured once between these ranks.

Horovod's background thread wakes once a cycle and talks to the other ranks even if there is no gradient, which takes
time from computing cores. A gradient waits for the next cycle. So a cycle is as short as a fixed share of a core
allows, whatever the node and the number of ranks. GPUs leave cores idle, and their steps are shorter. It is stored in
the directory of all runs, so that equal runs have equal cycles: CPU time of this process hardly depends on other load.
"""

import os
import time
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.trainer.autotune import measurements
from orchestrator.trainer.comm import allreduce

MEASURE_VARIABLE = "ORCHESTRATOR_MEASURE_CYCLE"  # in the environment of runs whose cycle time is to be chosen
CYCLE_VARIABLE = "HOROVOD_CYCLE_TIME"  # ms
SHARE, SHARE_WITH_GPU = 0.02, 0.1  # of a core, for the background thread while there is nothing to send
SHORTEST, LONGEST = 1.0, 25.0  # ms: Horovod's default; the longest that gained anything on CPUs
MEASUREMENTS, IDLE = 3, 0.1  # number of measurements, and the seconds of each


def tune(directory: Path, threads: int) -> None:
    """Restart Horovod with the cycle time that suits these ranks, if it is to be measured. A collective call.

    ``directory`` is the run's. Not with MPI, which cannot be started twice in a program (MPI 4.0, section 11.2.1).
    """
    if hvd.size() == 1 or MEASURE_VARIABLE not in os.environ or hvd.mpi_enabled():
        return
    cycle = measurements.measured_together("cycle-time", directory.parent, threads, _measure)
    hvd.shutdown()
    os.environ[CYCLE_VARIABLE] = f"{cycle:g}"
    hvd.init()


def _measure() -> float:
    """Return the longest cycle that any rank needs."""
    hvd.allreduce(tf.zeros([]), name="cycle.begin")
    work = min(_cpu_per_cycle() for _ in range(MEASUREMENTS))  # the minimum excludes other work of this process
    share = SHARE_WITH_GPU if tf.config.get_visible_devices("GPU") else SHARE
    return allreduce.allreduce_max(cycle_for(work, share))


def cycle_for(work: float, share: float) -> float:
    """Return the cycle time in ms, in halves, at which ``work`` seconds of CPU per cycle take ``share`` of a core."""
    return min(max(round(2e3 * work / share) / 2, SHORTEST), LONGEST)


def _cpu_per_cycle() -> float:
    """Measure the CPU seconds per cycle of this rank's background thread while idle."""
    started, used = time.perf_counter(), time.process_time()
    time.sleep(IDLE)
    cycles = (time.perf_counter() - started) * 1e3 / max(float(os.environ[CYCLE_VARIABLE]), SHORTEST)
    return (time.process_time() - used) / cycles
