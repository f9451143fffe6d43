"""The learning rate as a pure function of the step."""

import math

from orchestrator.schema import TrainConfig

DECAY = 0.1


def peak(config: TrainConfig, batches: int) -> float:
    """The learning rate of one batch times their number in a step: the linear scaling rule of Goyal et al. 2017, 2.1.

    Which batches count, ``reduction.scale`` says: those of all ranks and passes, but for Adasum.
    """
    return config.learning_rate * batches


def learning_rate(config: TrainConfig, batches: int, steps_per_epoch: int, step: int) -> float:
    """The rate at ``step`` (from 0): from one batch's rate up to the peak over the warm-up (ibid., 2.2), then down."""
    top, epoch = peak(config, batches), step / steps_per_epoch
    if epoch < config.warmup_epochs:
        return config.learning_rate + (top - config.learning_rate) * epoch / config.warmup_epochs
    return top * _part(config, epoch)


def _part(config: TrainConfig, epoch: float) -> float:
    """How much of the peak is left after so many epochs.

    "step" divides by ten at every milestone, which is a share of all epochs; "cosine" is Loshchilov and Hutter 2017;
    "exponential" multiplies by ``decay`` every ``decay_epochs`` epochs, at once; "polynomial" is Caffe's "poly".
    """
    share = min(epoch / config.epochs, 1.0)
    if config.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * share))
    if config.schedule == "exponential":
        return float(config.decay ** (epoch // config.decay_epochs))
    if config.schedule == "polynomial":
        return float((1.0 - share) ** config.power)
    return float(DECAY ** sum(share >= milestone for milestone in config.milestones))
