"""Synchronous data-parallel training: ``python -m orchestrator.trainer.train RUN_DIRECTORY`` on every rank.

Recipe of Goyal et al. 2017, "Accurate, Large Minibatch SGD" (arXiv 1706.02677): SGD with momentum, the learning rate
scaled with the number of batches in a step, approached by a linear warm-up.
"""

import gc
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # TensorFlow's default is oneDNN only if the CPU has VNNI

if __name__ == "__main__":
    gc.disable()  # saves a sixth of TensorFlow's import time: it creates many objects and hardly any garbage

import horovod.tensorflow as hvd

from orchestrator import exit_codes
from orchestrator.schema import TrainConfig
from orchestrator.trainer import compiled_steps, rank_setup, results
from orchestrator.trainer.autotune import bf16_probe
from orchestrator.trainer.checkpoints import checkpoint
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.data.inspection import DataError
from orchestrator.trainer.loop import Training


def main(run_directory: Path) -> int:
    """Train; return the rank's exit code: 0, or RUN_STOPPED if the run was asked to end and left a checkpoint."""
    config = TrainConfig.model_validate_json((run_directory / "config.json").read_text())
    bf16_probe.start_in_background(config)
    allreduce.begin(config.adasum)
    results.say(f"{hvd.size()} ranks: reading {config.dataset}, building {config.model}")
    chosen = checkpoint.unchosen(config)
    config = rank_setup.prepare(checkpoint.with_resumed_choices(config, hvd.size()))
    trainer = _build_trainer(config, run_directory)
    trainer.chosen = chosen
    gc.freeze()  # the objects of the imports stay
    gc.enable()
    step = compiled_steps.training(trainer)  # meanwhile, a thread draws the weights
    rank_setup.share_weights(trainer)
    training = Training(run_directory, trainer, step, compiled_steps.evaluation(trainer))
    with trainer.telemetry:
        try:
            ended = training.run()
        except DataError as error:
            sys.exit(f"rank {hvd.rank()} {trainer.position}: {error}")
    return exit_codes.RUN_STOPPED if ended == "terminated" else 0


def _build_trainer(config: TrainConfig, run_directory: Path) -> rank_setup.Trainer:
    try:
        return rank_setup.build(config, run_directory)
    except DataError as error:
        sys.exit(f"rank {hvd.rank()}: {error}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
