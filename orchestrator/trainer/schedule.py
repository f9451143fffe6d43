"""The learning rate as a pure function of the step."""

import math

from orchestrator.schema import TrainConfig

DECAY = 0.1


def peak(config: TrainConfig, world: int) -> float:
    """The learning rate of one rank times the number of ranks: the linear scaling rule of Goyal et al. 2017, 2.1."""
    return config.learning_rate * world


def learning_rate(config: TrainConfig, world: int, steps_per_epoch: int, step: int) -> float:
    """The rate at ``step`` (from 0): from one rank's rate up to the peak over the warm-up (ibid., 2.2), then down.

    "step" divides by ten at every milestone, which is a share of all epochs; "cosine" is Loshchilov and Hutter 2017.
    """
    top, epoch = peak(config, world), step / steps_per_epoch
    if epoch < config.warmup_epochs:
        return config.learning_rate + (top - config.learning_rate) * epoch / config.warmup_epochs
    share = epoch / config.epochs
    if config.schedule == "cosine":
        return top * 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))
    passed: int = sum(share >= milestone for milestone in config.milestones)
    return float(top * DECAY**passed)
