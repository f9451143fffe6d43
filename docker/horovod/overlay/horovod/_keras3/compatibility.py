"""Let Keras 3 accept spellings of Keras 2 that scripts for Horovod use, and compile models as Horovod needs."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd
import keras
from horovod._keras3.optimizer import Distributed, with_loss_scale


class CallableList(list[Any]):
    """A list that returns itself when called: ``optimizer.variables()``, as Keras 2 spelled it."""

    def __call__(self) -> "CallableList":
        """Return the list."""
        return self


def accept_keras_2_spellings() -> None:
    """Let every optimizer and model of Keras 3 accept what scripts for Horovod pass. A second call does nothing."""
    optimizer = keras.optimizers.Optimizer
    if hasattr(optimizer, "lr"):
        return
    owners = (*optimizer.__mro__, keras.optimizers.LossScaleOptimizer, keras.optimizers.MultiOptimizer)
    for base in (owner for owner in owners if "variables" in vars(owner)):
        base.variables = _callable(vars(base)["variables"])
    optimizer.lr = property(lambda self: self.learning_rate, lambda self, value: setattr(self, "learning_rate", value))
    base = next(owner for owner in optimizer.__mro__ if owner.__name__ == "BaseOptimizer")
    base.__init__ = _with_lr(base.__init__)
    keras.Variable.ref = lambda self: self.value.ref()
    trainer = next(parent for parent in keras.Model.__mro__ if "compile" in vars(parent))
    trainer.compile = _compile(vars(trainer)["compile"])


def _callable(variables: Any) -> property:
    return property(lambda self: CallableList(variables.fget(self)), doc=variables.__doc__)


def _with_lr(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def initialize(self: Any, *args: Any, lr: Any = None, **kwargs: Any) -> None:
        if lr is not None:
            kwargs["learning_rate"] = lr
        original(self, *args, **kwargs)

    return initialize


def _compile(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(  # noqa: A001
        self: Any, *args: Any, experimental_run_tf_function: bool | None = None, **kwargs: Any
    ) -> Any:
        arguments = signature.bind(self, *args, **kwargs).arguments
        if hvd.is_initialized():
            arguments["optimizer"] = _scaled(self, arguments)
            arguments["jit_compile"] = _without_xla(arguments)
        return original(**arguments)

    return compile


def _without_xla(arguments: dict[str, Any]) -> Any:
    """Return jit_compile for a model that is trained with Horovod. Raises ValueError if it cannot be what was asked."""
    asked = arguments.get("jit_compile", "auto")
    if asked is True and isinstance(arguments["optimizer"], Distributed):
        raise ValueError(
            "jit_compile=True with a Horovod DistributedOptimizer: XLA cannot compile Horovod's allreduce; "
            "compile the model with jit_compile=False"
        )
    return False if asked == "auto" else asked


def _scaled(model: Any, arguments: dict[str, Any]) -> Any:
    """Return the optimizer, with the loss scale that Keras would put around a distributed one."""
    optimizer = arguments.get("optimizer", "rmsprop")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) and not isinstance(optimizer, Distributed):
        inner = optimizer.inner_optimizer
        return with_loss_scale(inner, optimizer) if isinstance(inner, Distributed) else optimizer
    scales = arguments.get("auto_scale_loss", True) and model.dtype_policy.name == "mixed_float16"
    has_scale = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    return with_loss_scale(optimizer) if scales and isinstance(optimizer, Distributed) and not has_scale else optimizer
