"""Train as one of several ranks that exchange nothing: ``python -m bench.train_lockstep RUN_DIRECTORY``.

Run by ``bench.train`` in a container, as the trainer is. At every step the ranks wait until all of them have their
gradients, by a sum of one number, and each keeps its own gradients. No exchange can be faster than this.
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer import averages_over_ranks, train
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.tensorflow_operations import clock


def wait(gradients: list[tf.Tensor], config: TrainConfig) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return this rank's gradients when every rank has its own, and the times of ``allreduce.allreduce_mean``."""
    ready = clock.read(allreduce.before_upcast(gradients, config))
    everyone = hvd.allreduce(tf.reshape(ready, [1]), op=hvd.Sum, name="everyone")
    return gradients, tf.stack([[ready], [clock.read([everyone])]])


if __name__ == "__main__":
    allreduce.allreduce_mean = wait
    averages_over_ranks.digest = lambda model: ""  # the weights of ranks differ
    sys.exit(train.main(Path(sys.argv[1])))
