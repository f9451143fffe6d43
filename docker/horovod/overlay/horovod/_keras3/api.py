"""Functions that horovod.keras and horovod.tensorflow.keras call for Keras 3, with the arguments of horovod._keras."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import horovod._keras as keras_2
import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from horovod._keras3.optimizer import distribute


def create_distributed_optimizer(
    keras: Any,
    optimizer: Any,
    name: str | None,
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: Any,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: Any = hvd.global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a copy of an optimizer that reduces gradients; one of Keras 2 is left to Horovod's own code."""
    settings = dict(locals())
    if not _is_keras_3(optimizer):
        return keras_2.create_distributed_optimizer(**settings)
    del settings["keras"], settings["optimizer"]
    settings["name"] = name or f"Distributed{type(optimizer).__name__}"
    return distribute(optimizer, settings)


def _is_keras_3(optimizer: Any) -> bool:
    return isinstance(optimizer, keras.optimizers.Optimizer)


def _evaluate(backend: Any, function: Callable[[], Any]) -> Any:
    """Return the function's result: of a session if TensorFlow 1 is emulated."""
    if tf.executing_eagerly() or tf.inside_function():
        return function()
    return backend.get_session().run(function())


def broadcast_global_variables(backend: Any, root_rank: int) -> Any:
    """Broadcast the variables of TensorFlow 1; eagerly Horovod refuses and names the function to use."""
    return _evaluate(backend, lambda: hvd.broadcast_global_variables(root_rank))


def allreduce(
    backend: Any,
    value: Any,
    name: str | None,
    average: bool | None,
    prescale_factor: float,
    postscale_factor: float,
    op: Any,
    compression: Any,
) -> Any:
    """Reduce a value over all ranks."""
    tensor = _tensor(value, name)
    scales = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return _evaluate(backend, lambda: hvd.allreduce(tensor, average=average, op=op, compression=compression, **scales))


def allgather(backend: Any, value: Any, name: str | None) -> Any:
    """Concatenate the values of all ranks."""
    return _evaluate(backend, lambda: hvd.allgather(_tensor(value, name)))


def broadcast(backend: Any, value: Any, root_rank: int, name: str | None) -> Any:
    """Return the value of a rank on all ranks."""
    return _evaluate(backend, lambda: hvd.broadcast(_tensor(value, name), root_rank))


def reducescatter(backend: Any, value: Any, name: str | None, op: Any) -> Any:
    """Reduce a value over all ranks and return this rank's part."""
    return _evaluate(backend, lambda: hvd.reducescatter(_tensor(value, name), op=op))


def _tensor(value: Any, name: str | None) -> Any:
    return tf.convert_to_tensor(value, name=name)


def load_model(
    keras: Any,
    wrap_optimizer: Callable[..., Any],
    filepath: Any,
    custom_optimizers: Iterable[Any] | None,
    custom_objects: dict[str, Any] | None,
    legacy_opts: bool = False,
) -> Any:
    """Load a model, and its optimizer with state as a distributed one.

    Args:
        keras: The package of Keras.
        wrap_optimizer: Turns a class of optimizers into a function that makes distributed ones.
        filepath: Path of the model, or an open h5py.File.
        custom_optimizers: Classes of optimizers that Keras does not know.
        custom_objects: Other classes and functions by name.
        legacy_opts: Must be false: Keras 3 has no optimizers of before TensorFlow 2.11.

    Raises:
        ValueError: ``legacy_opts`` is true.
    """
    if legacy_opts:
        raise ValueError(
            "legacy_opts=True: Keras 3 has no legacy optimizers; set TF_USE_LEGACY_KERAS=1 to load with Keras 2"
        )
    custom = {cls.__name__: cls for cls in custom_optimizers or []} | (custom_objects or {})
    path = filepath if isinstance(filepath, (str, os.PathLike)) else filepath.filename
    model = keras.models.load_model(path, custom_objects=custom)
    if model.optimizer is not None:
        model.optimizer = _distributed_like(model, wrap_optimizer)
        model.jit_compile = False  # Keras saves what "auto" became; XLA cannot compile Horovod's allreduce
    return model


def _distributed_like(model: Any, wrap_optimizer: Callable[..., Any]) -> Any:
    """Return a distributed optimizer with the configuration and the variables of the model's."""
    loaded = model.optimizer
    optimizer = wrap_optimizer(lambda: loaded)()
    if loaded.built:
        optimizer.build(model.trainable_variables)
        for variable, value in zip(optimizer.variables, loaded.variables, strict=True):
            variable.assign(value)
    return optimizer
