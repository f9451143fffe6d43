"""What horovod.keras and horovod.tensorflow.keras call for Keras 3, with the arguments of horovod._keras."""

import os

import horovod._keras as keras_2
import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from horovod._keras3.optimizer import distribute


def create_distributed_optimizer(
    keras,
    optimizer,
    name,
    device_dense,
    device_sparse,
    compression,
    sparse_as_dense,
    gradient_predivide_factor,
    op,
    backward_passes_per_step=1,
    average_aggregated_gradients=False,
    groups=None,
    process_set=hvd.global_process_set,
    scale_local_gradients=True,
):
    """Return a copy of an optimizer that reduces gradients; one of Keras 2 is left to Horovod's own code."""
    settings = dict(locals())
    if not _is_keras_3(optimizer):
        return keras_2.create_distributed_optimizer(**settings)
    del settings["keras"], settings["optimizer"]
    settings["name"] = name or f"Distributed{type(optimizer).__name__}"
    return distribute(optimizer, settings)


def _is_keras_3(optimizer):
    return isinstance(optimizer, keras.optimizers.Optimizer)


def _evaluate(backend, function):
    """Return the function's result: of a session if TensorFlow 1 is emulated."""
    if tf.executing_eagerly() or tf.inside_function():
        return function()
    return backend.get_session().run(function())


def broadcast_global_variables(backend, root_rank):
    """Broadcast the variables of TensorFlow 1; eagerly Horovod refuses and names the function to use."""
    return _evaluate(backend, lambda: hvd.broadcast_global_variables(root_rank))


def allreduce(backend, value, name, average, prescale_factor, postscale_factor, op, compression):
    """Reduce a value over all ranks."""
    tensor = _tensor(value, name)
    scales = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return _evaluate(backend, lambda: hvd.allreduce(tensor, average=average, op=op, compression=compression, **scales))


def allgather(backend, value, name):
    """Concatenate the values of all ranks."""
    return _evaluate(backend, lambda: hvd.allgather(_tensor(value, name)))


def broadcast(backend, value, root_rank, name):
    """Return the value of a rank on all ranks."""
    return _evaluate(backend, lambda: hvd.broadcast(_tensor(value, name), root_rank))


def reducescatter(backend, value, name, op):
    """Reduce a value over all ranks and return this rank's part."""
    return _evaluate(backend, lambda: hvd.reducescatter(_tensor(value, name), op=op))


def _tensor(value, name):
    return tf.convert_to_tensor(value, name=name)


def load_model(keras, wrap_optimizer, filepath, custom_optimizers, custom_objects, legacy_opts=False):
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
    known = {cls.__name__: cls for cls in custom_optimizers or []} | (custom_objects or {})
    path = filepath if isinstance(filepath, (str, os.PathLike)) else filepath.filename
    model = keras.models.load_model(path, custom_objects=known)
    if model.optimizer is not None:
        model.optimizer = _distributed_like(model, wrap_optimizer)
    return model


def _distributed_like(model, wrap_optimizer):
    """Return a distributed optimizer with the configuration and the variables of the model's."""
    loaded = model.optimizer
    made = wrap_optimizer(type(loaded).from_config)(config=loaded.get_config())
    if loaded.built:
        made.build(model.trainable_variables)
        for variable, value in zip(made.variables, loaded.variables, strict=True):
            variable.assign(value)
    return made
