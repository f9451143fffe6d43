"""Engines: programs that train a recipe as other frameworks' documentation has it, to be compared with ``train``.

Each is run as ``python -m orchestrator.trainer.engines.NAME RUN_DIRECTORY``, reads the same config.json and writes the
same results.json. They share samples and their order, initial weights, learning rates, scores and results; how an
engine trains a batch and how its ranks exchange gradients stands in its own module.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as in train: TensorFlow's default depends on the CPU
