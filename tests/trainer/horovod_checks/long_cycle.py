"""Reduce ten tensors in long cycles, on ranks that add theirs at different times."""

import time

import horovod.tensorflow as hvd
import tensorflow as tf

from tests.trainer.horovod_checks import execute, named

CYCLE, TENSORS = 0.5, 10  # seconds; a quarter of a cycle for each tensor is far from a cycle, and from 0.02 s


def check_tensors_do_not_wait_for_a_cycle() -> None:
    hvd.allreduce(tf.ones([]), name="first")
    started = time.monotonic()
    for number in range(TENSORS):
        time.sleep(0.02 * (hvd.rank() == number % hvd.size()))
        hvd.allreduce(tf.ones([]), name=f"tensor.{number}")
    seconds = time.monotonic() - started
    assert seconds < TENSORS * CYCLE / 4, seconds


if __name__ == "__main__":
    execute(named(globals()))
