"""Group four gradients before and after a second initialization with another cycle time."""

import os

import horovod.tensorflow as hvd
import tensorflow as tf

from tests.trainer.horovod_checks import execute, named

GROUP = [1 << 20] * 4  # elements of four float32 tensors


def check_group_of_four() -> None:
    hvd.grouped_allreduce([tf.ones([size]) for size in GROUP], name="first")
    hvd.shutdown()
    os.environ["HOROVOD_CYCLE_TIME"] = "2"
    hvd.init()
    hvd.grouped_allreduce([tf.ones([size]) for size in GROUP], name="second")


if __name__ == "__main__":
    execute(named(globals()))
