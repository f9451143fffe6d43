"""Optimizers of Keras 3 that reduce gradients over all ranks before they apply them."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf
from horovod._keras3 import configuration
from horovod._keras3.reduction import GradientReduction

# Where Keras keeps what exclude_from_weight_decay() was told, which is not in an optimizer's configuration.
EXCLUDED_FROM_DECAY = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")


class Distributed(keras.optimizers.Optimizer):
    """Part of a distributed optimizer that does not depend on the Keras class it is made from."""

    _horovod_settings: Mapping[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._horovod = GradientReduction(**self._horovod_settings)
        self._horovod_reduced = False  # by compute_gradients, for the next call of apply
        self._horovod_inside = False  # another optimizer, which reduced the gradients, applies them by this one

    def register_local_var(self, var: Any) -> None:
        """Keep the gradient of a variable on its rank."""
        self._horovod.keep_local(var)

    def compute_gradients(
        self, loss: Any, var_list: list[Any], grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """Return (gradient, variable) pairs, reduced over all ranks if each backward pass is a step.

        Args:
            loss: A tensor that ``tape`` recorded, or a function that returns one.
            var_list: Variables to differentiate by.
            grad_loss: Gradient of the loss, ones by default.
            tape: The tape that recorded ``loss``.
        """
        tape = tf.GradientTape() if tape is None else tape
        if callable(loss):
            with tape:
                loss = loss()
        gradients = tape.gradient(loss, var_list, grad_loss)
        if self._horovod.passes == 1:
            gradients = self._horovod.reduce(gradients, var_list)
            self._horovod_reduced = True
        return list(zip(gradients, var_list, strict=True))

    _compute_gradients = compute_gradients

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        experimental_aggregate_gradients: bool | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Apply (gradient, variable) pairs; the named arguments are those of Keras 2, and change nothing."""
        return super().apply_gradients(grads_and_vars, **kwargs)

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """Reduce gradients over all ranks and apply them: after every ``backward_passes_per_step`` calls."""
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if not self.built:  # not in a branch of a condition, which could not keep what is built
                self.build(trainable_variables)
        variables = self._trainable_variables if trainable_variables is None else trainable_variables
        if self._horovod_reduced or self._horovod_inside:
            self._horovod_reduced = False
            self._apply_reduced(grads, trainable_variables)
        elif self._horovod.passes == 1:
            self._apply_reduced(self._horovod.reduce(list(grads), variables), trainable_variables)
        else:
            self._apply_every(list(grads), variables)

    def _apply_reduced(self, gradients: Iterable[Any], variables: Iterable[Any] | None) -> None:
        inner = getattr(self, "inner_optimizer", None)  # of a loss scale
        if not isinstance(inner, Distributed):
            return super().apply(gradients, variables)
        inner._horovod_inside = True
        try:
            super().apply(gradients, variables)
        finally:
            inner._horovod_inside = False

    def _apply_every(self, gradients: list[Any], variables: list[Any]) -> None:
        def update() -> Any:
            self._apply_reduced(self._horovod.take(gradients, variables), variables)
            return tf.constant(True)

        def wait() -> Any:
            self._iterations.assign_add(1)
            return tf.constant(False)

        tf.cond(self._horovod.accumulate(gradients, variables), update, wait)


def distribute(optimizer: Any, settings: Mapping[str, Any]) -> Any:
    """Return a copy of an optimizer that reduces gradients over all ranks.

    Its class has the name and module of the optimizer's, so a saved model is loaded without Horovod too.

    Args:
        optimizer: An optimizer of Keras 3.
        settings: Arguments of GradientReduction.
    """
    base = plain_class(optimizer)
    members = {"_horovod_settings": settings, "_horovod_base": base, "__module__": base.__module__}
    return copy(optimizer, type(base.__name__, (Distributed, base), members))


def copy(optimizer: Any, cls: Any) -> Any:
    """Return an optimizer of a class with the configuration of another, without its state."""
    inner = getattr(optimizer, "inner_optimizer", None)  # of a loss scale
    if inner is not None:
        scale = {"initial_scale": optimizer.initial_scale, "dynamic_growth_steps": optimizer.dynamic_growth_steps}
        return cls(copy(inner, plain_class(inner)), name=optimizer.name, **scale)
    result = cls.from_config(configuration(optimizer))
    for name in EXCLUDED_FROM_DECAY:
        if hasattr(optimizer, name):
            setattr(result, name, getattr(optimizer, name))
    return result


def plain_class(optimizer: Any) -> Any:
    """Return the class of an optimizer without Horovod."""
    return getattr(optimizer, "_horovod_base", type(optimizer))


def with_loss_scale(optimizer: Any, scaled: Any = None) -> Any:
    """Return a LossScaleOptimizer that reduces gradients, and applies them by a distributed optimizer.

    The reduction has to come first: Keras applies no gradients on a rank where one is not finite, and the other ranks
    would wait for that rank.

    Args:
        optimizer: The distributed optimizer, which stays the one that trains: its learning rate can be changed.
        scaled: Keras' LossScaleOptimizer with the settings of the scale; None for Keras' defaults.

    Returns:
        The optimizer to compile a model with.
    """
    if scaled is None:
        inner = copy(optimizer, plain_class(optimizer))
        scaled = keras.optimizers.LossScaleOptimizer(inner, name="loss_scale_optimizer")
    result = distribute(scaled, optimizer._horovod_settings)
    result.inner_optimizer, result._horovod = optimizer, optimizer._horovod
    optimizer.loss_scale_factor = None  # as Keras sets it, since the loss would be scaled twice
    return result
