"""Let rank 1 submit a tensor three seconds after rank 0."""

import time

import horovod.tensorflow as hvd
import tensorflow as tf

from tests.trainer.horovod_checks import execute, named

DELAY = 3  # seconds


def check_tensor_of_a_late_rank() -> None:
    time.sleep(DELAY * hvd.rank())
    hvd.allreduce(tf.ones([1]), name="late")


if __name__ == "__main__":
    execute(named(globals()))
