"""Learning rate as a pure function of the step."""

import math

from orchestrator.schema import TrainConfig

DECAY = 0.1


def peak(config: TrainConfig, batches: int) -> float:
    """Return the learning rate of one batch times ``batches``: the linear scaling rule of Goyal et al. 2017, 2.1.

    ``allreduce.scale`` counts the batches: those of all ranks and passes, except with Adasum.
    """
    return config.learning_rate * batches


def with_batch(config: TrainConfig, most: int) -> TrainConfig:
    """Return ``config`` with a batch of at most ``most`` images, and the rate in proportion (ibid.).

    A resumed run may have more ranks than the run whose settings these are, so each has fewer images.
    """
    batch = min(config.batch_size, most)
    rate = config.learning_rate * (batch / config.batch_size)
    return config.model_copy(update={"batch_size": batch, "learning_rate": rate})


def learning_rate(config: TrainConfig, batches: int, steps_per_epoch: int, step: int) -> float:
    """Compute the learning rate of a step: warm-up from one batch's rate to the peak (ibid., 2.2), then decay.

    Args:
        config: Sets the schedule.
        batches: Batches that count in a step, as in :func:`peak`.
        steps_per_epoch: Steps in an epoch.
        step: Number of the step, from 0.

    Returns:
        The learning rate.
    """
    top, epoch = peak(config, batches), step / steps_per_epoch
    if epoch < config.warmup_epochs:
        return config.learning_rate + (top - config.learning_rate) * epoch / config.warmup_epochs
    return top * _share_of_peak(config, epoch)


def _share_of_peak(config: TrainConfig, epoch: float) -> float:
    """Return the share of the peak that is left after ``epoch`` epochs.

    "step" divides by ten at every milestone, a share of all epochs; "cosine" is Loshchilov and Hutter 2017;
    "exponential" multiplies by ``decay`` every ``decay_epochs`` epochs, in steps; "polynomial" is Caffe's "poly".
    """
    share = min(epoch / config.epochs, 1.0)
    if config.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * share))
    if config.schedule == "exponential":
        return float(config.decay ** (epoch // config.decay_epochs))
    if config.schedule == "polynomial":
        return float((1.0 - share) ** config.power)
    return float(DECAY ** sum(share >= milestone for milestone in config.milestones))
