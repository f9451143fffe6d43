"""Optimizers, with weight decay as an addition to the gradients."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.tensorflow_operations import library, update

# Numbers of weights for which ResourceApplyAdam gives parts to other threads, which takes longer than its work.
HANDED_OVER = range(1024, 65536)


def build(config: TrainConfig) -> keras.optimizers.Optimizer:
    """Build the optimizer of ``config`` at a learning rate of 0: the schedule sets it before every step.

    It adds ``weight_decay`` times the weights to the gradients of kernels, not of biases or batch normalisation, before
    it clips them: the gradient of half the squared weights in the loss.
    """
    optimizer = _by_rule(config)
    optimizer.decay = config.weight_decay
    return keras.optimizers.LossScaleOptimizer(optimizer) if config.precision == "float16" else optimizer


class Decaying(keras.optimizers.Optimizer):
    """Base of optimizers that add ``decay`` times the kernels to their gradients."""

    decay = 0.0
    decays_in_update = False  # instead of an addition to the gradient, which takes another pass over the weights

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: "Sequence[Any] | None" = None) -> None:
        variables = trainable_variables or self._trainable_variables
        super().apply([self._decayed(*pair) for pair in zip(grads, variables, strict=True)], trainable_variables)

    def _decayed(self, gradient: tf.Tensor, variable: Any) -> tf.Tensor:
        if self.decays_in_update or not self._decays(variable):
            return tf.identity(gradient)  # in the same graph as the others if updates are conditional
        return gradient + self.decay * tf.convert_to_tensor(variable)

    def _in_update(self, decay: tf.Tensor, variable: Any) -> "tf.Tensor | None":
        """Return the decay that the update of ``variable`` applies; None if it applies none."""
        return decay if self.decays_in_update and self._decays(variable) else None

    def _decays(self, variable: Any) -> bool:
        return bool(self.decay) and len(variable.shape) >= 2


class Momentum(Decaying, keras.optimizers.SGD):
    """Keras' momentum rule in as few passes over the weights as possible: they cost memory reads.

    It updates all variables in one loop; tf.distribute's way for each of them took a sixth of the trace.
    """

    def _backend_update_step(self, grads: Sequence[tf.Tensor], variables: Sequence[Any], learning_rate: Any) -> None:
        rate, momentum = (tf.convert_to_tensor(number, tf.float32) for number in (learning_rate, self.momentum))
        decay = rate * self.decay / momentum  # the momentum multiplies it next
        for gradient, variable in zip(grads, variables, strict=True):
            accumulated = self.momentums[self._get_variable_index(variable)]
            own = self._in_update(decay, variable)
            update.momentum(variable, accumulated, gradient, rate, momentum, own, self.nesterov)

    @property
    def decays_in_update(self) -> bool:  # type: ignore[override]
        """Whether decay can go into the momentum instead of the gradient: only if nothing else reads the gradient."""
        return not self.nesterov and self.global_clipnorm is None


class Plain(Decaying, keras.optimizers.SGD):
    pass


class RMSprop(Decaying, keras.optimizers.RMSprop):
    """Keras' rule as one operation per variable on CPUs, unless it has momentum."""

    def _backend_update_step(self, grads: Sequence[tf.Tensor], variables: Sequence[Any], learning_rate: Any) -> None:
        if not self._at_once:
            super()._backend_update_step(grads, variables, learning_rate)
            return
        rate, rho, decay = (tf.convert_to_tensor(n, tf.float32) for n in (learning_rate, self.rho, self.decay))
        for gradient, variable in zip(grads, variables, strict=True):
            squares = self._velocities[self._get_variable_index(variable)]
            update.rmsprop(variable, squares, gradient, rate, rho, self._in_update(decay, variable), self.epsilon)

    @property
    def _at_once(self) -> bool:
        return not self.momentum and library.load() is not None

    @property
    def decays_in_update(self) -> bool:  # type: ignore[override]
        """Whether decay can go into the update: only if that is one operation, and nothing else reads the gradient."""
        return self._at_once and self.global_clipnorm is None


class Adam(Decaying, keras.optimizers.Adam):
    """Keras' rule as one operation per variable, except where Keras' many operations are faster."""

    def _backend_update_step(self, grads: Sequence[tf.Tensor], variables: Sequence[Any], learning_rate: Any) -> None:
        rate, step = tf.convert_to_tensor(learning_rate, tf.float32), tf.cast(self.iterations + 1, tf.float32)
        powers = [tf.pow(beta, step) for beta in (self.beta_1, self.beta_2)]
        for gradient, variable in zip(grads, variables, strict=True):
            if variable.shape.num_elements() in HANDED_OVER:
                self.update_step(gradient, variable, rate)
            else:
                self._update_at_once(gradient, variable, rate, powers)

    def _update_at_once(self, gradient: tf.Tensor, variable: Any, rate: tf.Tensor, powers: list[tf.Tensor]) -> None:
        index = self._get_variable_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].handle,
            v=self._velocities[index].handle,
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )


def _by_rule(config: TrainConfig) -> Any:
    clip = config.clip_norm
    if config.optimizer == "rmsprop":
        return RMSprop(0.0, rho=config.rho, momentum=config.momentum, epsilon=config.epsilon, global_clipnorm=clip)
    if config.optimizer == "adam":
        return Adam(0.0, beta_1=config.momentum, beta_2=config.rho, epsilon=config.epsilon, global_clipnorm=clip)
    kind = Momentum if config.momentum else Plain
    return kind(0.0, momentum=config.momentum, nesterov=config.nesterov, global_clipnorm=clip)
