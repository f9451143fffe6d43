"""What turns gradients into new weights."""

from collections.abc import Callable

import keras

from orchestrator.schema import TrainConfig


def build(config: TrainConfig) -> keras.optimizers.Optimizer:
    """The optimizer that ``config`` names, at a learning rate of 0: the schedule sets it before every step."""
    made = OPTIMIZERS[config.optimizer](config)
    return keras.optimizers.LossScaleOptimizer(made) if config.precision == "float16" else made


def _sgd(config: TrainConfig) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(
        0.0, momentum=config.momentum, nesterov=config.nesterov, global_clipnorm=config.clip_norm
    )


def _rmsprop(config: TrainConfig) -> keras.optimizers.Optimizer:
    return keras.optimizers.RMSprop(
        0.0, rho=config.rho, momentum=config.momentum, epsilon=config.epsilon, global_clipnorm=config.clip_norm
    )


def _adam(config: TrainConfig) -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(
        0.0, beta_1=config.momentum, beta_2=config.rho, epsilon=config.epsilon, global_clipnorm=config.clip_norm
    )


OPTIMIZERS: dict[str, Callable[[TrainConfig], keras.optimizers.Optimizer]] = {
    "sgd": _sgd,
    "rmsprop": _rmsprop,
    "adam": _adam,
}
