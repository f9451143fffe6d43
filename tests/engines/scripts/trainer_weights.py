"""Write weights.npz, like other engines, from the newest checkpoint in the directory of a run of the trainer."""

import sys
from pathlib import Path

import tensorflow as tf

from orchestrator.trainer.engines import keras_network, step_inputs, weight_files
from orchestrator.trainer.models import networks_by_name

directory = Path(sys.argv[1])
config = step_inputs.read_config(directory)
model = networks_by_name.build(config.model, config.image_size, config.channels, config.classes, config.seed)
newest = max((directory / "checkpoints").glob("epoch-*"))
tf.train.Checkpoint(model=model).read(str(newest / "state")).expect_partial()
weight_files.write(directory / weight_files.FINAL, keras_network.read(model))
