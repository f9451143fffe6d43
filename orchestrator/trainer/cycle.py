"""Horovod's cycle where nobody chose it, by measuring the nodes as a run begins.

Horovod's background thread wakes once a cycle, and talks to the others' whether there is a gradient or not: that is
time of cores which compute. A gradient waits for the next cycle. So a cycle is as short as a share of a core allows,
whatever the node and however many ranks there are. GPUs leave cores alone, and their steps are shorter.
"""

import os
import time

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.trainer import reduction

ASKED = "ORCHESTRATOR_MEASURE_CYCLE"  # in the environment of runs whose cycle nobody chose
CYCLE = "HOROVOD_CYCLE_TIME"  # ms
SHARE, SHARE_BESIDE_GPU = 0.02, 0.1  # of a core, for the background thread while there is nothing to send
SHORTEST, LONGEST = 1.0, 25.0  # ms: Horovod's default; the longest that gained anything on CPUs
LOOKS, IDLE = 3, 0.1  # how often it is looked at, for so many seconds


def tune() -> None:
    """Start Horovod again with the cycle that suits these nodes, where it is to be measured. Every rank calls it.

    Not with MPI, which cannot be started twice in a program (MPI 4.0, section 11.2.1).
    """
    if hvd.size() == 1 or ASKED not in os.environ or hvd.mpi_enabled():
        return
    share = SHARE_BESIDE_GPU if tf.config.get_visible_devices("GPU") else SHARE
    cycle = reduction.slowest(suits(_work(float(os.environ[CYCLE])), share))
    hvd.shutdown()
    os.environ[CYCLE] = f"{cycle:g}"
    hvd.init()


def suits(work: float, share: float) -> float:
    """Milliseconds of a cycle with ``work`` seconds of CPU, for it to take this ``share`` of a core; in halves."""
    return min(max(round(2e3 * work / share) / 2, SHORTEST), LONGEST)


def _work(cycle: float) -> float:
    """Seconds of CPU that the background thread of this rank needs per cycle (of so many ms), with nothing to send."""
    hvd.allreduce(tf.zeros([]), name="cycle.begin")
    return min(_look(cycle) for _ in range(LOOKS))  # what else goes on in this process comes and goes


def _look(cycle: float) -> float:
    begun, used = time.perf_counter(), time.process_time()
    time.sleep(IDLE)
    cycles = (time.perf_counter() - begun) * 1e3 / max(cycle, SHORTEST)
    return (time.process_time() - used) / cycles
