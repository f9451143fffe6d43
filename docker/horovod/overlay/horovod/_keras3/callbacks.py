"""Callbacks for Keras 3; the public classes of Horovod inherit from these and from keras.callbacks.Callback."""

from collections.abc import Callable, Iterable
from typing import Any

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf
from horovod._keras3.native import native


class BroadcastGlobalVariablesCallbackImpl(keras.callbacks.Callback):
    """Broadcast weights and the optimizer's state after the first batch, which has created all of them.

    Seeds of dropout stay with their ranks, so that ranks drop different units.
    """

    def __init__(self, backend: Any, root_rank: int, device: str = "", *args: Any) -> None:
        super().__init__(*args)
        self.backend = backend
        self.root_rank = root_rank
        self.device = device
        self.broadcast_done = False
        self._local_vars: set[Any] = set()

    def register_local_var(self, var: Any) -> None:
        """Leave a variable out of the broadcast."""
        self._local_vars.add(native(var).ref())

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Broadcast once."""
        if self.broadcast_done:
            return
        weights = [v for v in self.model.weights if native(v).ref() not in self._local_vars]
        with tf.device(self.device):
            hvd.broadcast_variables(weights, root_rank=self.root_rank)
            hvd.broadcast_variables(list(_variables(self.model.optimizer)), root_rank=self.root_rank)
        self.broadcast_done = True


def _variables(optimizer: Any) -> Iterable[Any]:
    variables = getattr(optimizer, "variables", [])
    return variables() if callable(variables) else variables


class MetricAverageCallbackImpl(keras.callbacks.Callback):
    """Replace the metrics of an epoch by their means over all ranks."""

    def __init__(self, backend: Any, device: str = "", *args: Any) -> None:
        super().__init__(*args)
        self.backend = backend
        self.device = device

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Average in place, one metric after the other in the order of their names."""
        logs = {} if logs is None else logs
        for metric, value in sorted(logs.items()):
            mean = hvd.allreduce(tf.constant(value, name=metric), device_dense=self.device).numpy()
            logs[metric] = mean if np.ndim(mean) else mean.item()


class VariableFloat(float):
    """A float that TensorFlow reads from a variable: an optimizer's momentum, a constant in Keras 3."""

    variable: Any

    def __new__(cls, value: float) -> "VariableFloat":
        """Make a float with a variable of the same value."""
        number = super().__new__(cls, value)
        number.variable = tf.Variable(value, dtype=keras.config.floatx(), trainable=False)
        return number

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        """Return the variable's value."""
        return tf.cast(self.variable, dtype or self.variable.dtype, name=name)


class LearningRateScheduleCallbackImpl(keras.callbacks.Callback):
    """Set the learning rate to ``initial_lr`` times a multiplier, each epoch or (not ``staircase``) each batch."""

    def __init__(
        self,
        backend: Any,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        *args: Any,
    ) -> None:
        super().__init__(*args)
        if initial_lr is None:
            raise ValueError("Parameter `initial_lr` is required")
        self.backend = backend
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch: Any = steps_per_epoch  # not None once training has begun
        self.current_epoch = 0
        self._momentum: VariableFloat | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Find the number of steps, and give the optimizer a momentum that can be changed."""
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = (self.params or {}).get("steps")
            if not self.steps_per_epoch:
                raise ValueError(
                    f"{type(self).__name__} does not know the steps per epoch: pass steps_per_epoch to it or to fit"
                )
        if self.momentum_correction:
            self._momentum = self._changeable_momentum()

    def _changeable_momentum(self) -> VariableFloat | None:
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        momentum = getattr(optimizer, "momentum", None)
        if isinstance(momentum, float) and momentum and not isinstance(momentum, VariableFloat):
            optimizer.momentum = VariableFloat(momentum)
            self.model.make_train_function(force=True)  # the one of an earlier fit has the constant
        current = getattr(optimizer, "momentum", None)
        return current if isinstance(current, VariableFloat) else None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remember the epoch."""
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the learning rate if the epoch is one of this schedule's."""
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if not self.staircase:
            self._adjust(self.current_epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._adjust(self.current_epoch)

    def _adjust(self, epoch: float) -> None:
        """Set the learning rate, and for this batch the momentum in proportion (arXiv:1706.02677, section 2.1)."""
        old, new = self._rate(), self.initial_lr * self.multiplier(epoch)
        self.model.optimizer.learning_rate = new
        if self._momentum is not None and old:
            self._momentum.variable.assign(self._momentum * new / old)

    def _rate(self) -> float:
        return float(np.asarray(self.model.optimizer.learning_rate))

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the momentum back."""
        if self._momentum is not None:
            self._momentum.variable.assign(float(self._momentum))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Log the learning rate."""
        if logs is not None:
            logs["lr"] = self._rate()


class LearningRateWarmupCallbackImpl(LearningRateScheduleCallbackImpl):
    """Raise the learning rate from ``initial_lr`` divided by the number of ranks to ``initial_lr``."""

    def __init__(
        self,
        backend: Any,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
        *args: Any,
    ) -> None:
        def multiplier(epoch: float) -> float:
            done = (epoch + 1 / self.steps_per_epoch) / warmup_epochs  # 1 with the last batch of the warmup
            return (1 + done * (hvd.size() - 1)) / hvd.size()

        super().__init__(
            backend, initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch, *args
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Log the learning rate, and say on rank 0 that the warmup is over."""
        super().on_epoch_end(epoch, logs)
        if epoch + 1 == self.end_epoch and self.verbose and hvd.rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self._rate():g}.")


class ModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """A checkpoint callback whose path may be set after it was made, which Keras 3 does not allow by itself."""

    def __init__(self, filepath: Any = None, save_weights_only: bool = False, **options: Any) -> None:
        allowed = "unset.weights.h5" if save_weights_only else "unset.keras"
        super().__init__(filepath or allowed, save_weights_only=save_weights_only, **options)
        self.filepath = filepath

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Raise ValueError if no path was set."""
        if self.filepath is None:
            raise ValueError(f"{type(self).__name__} has no path: set its attribute filepath before fit")
        super().on_train_begin(logs)
