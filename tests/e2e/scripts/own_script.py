"""A user's Horovod script with arguments, a module in the same directory, and an output file."""

import argparse
import os
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf
from greeting import greet

parser = argparse.ArgumentParser()
parser.add_argument("--factor", type=float)
parser.add_argument("--words", default="")
arguments = parser.parse_args()
factor = arguments.factor

hvd.init()
total = float(hvd.allreduce(tf.constant(factor * (hvd.rank() + 1)), op=hvd.Sum))
print(f"{greet(hvd.rank(), hvd.size())}: {total:g} {arguments.words}")
Path(os.environ["ORCHESTRATOR_OUTPUT"], f"rank-{hvd.rank()}.txt").write_text(f"{total:g}\n")
