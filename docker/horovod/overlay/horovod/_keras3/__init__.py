"""Horovod's API for Keras 3, which Horovod 0.28.1 does not know; its own modules serve Keras 2 (tf_keras)."""

from importlib import import_module
from types import ModuleType
from typing import Any


def is_keras_3(keras: Any) -> bool:
    """Tell whether a Keras is Keras 3: the package keras, tf_keras, or tensorflow.keras, which is one of them."""
    return str(getattr(keras, "__version__", "2")).startswith("3.")


def implementation(keras: Any, part: str) -> ModuleType:
    """Return the module that serves a Keras: one of this package for Keras 3, else Horovod's.

    Args:
        keras: The package keras, tf_keras, or tensorflow.keras.
        part: "api" or "callbacks".
    """
    if is_keras_3(keras):
        return import_module(f"horovod._keras3.{part}")
    return import_module("horovod._keras" if part == "api" else f"horovod._keras.{part}")


def configuration(optimizer: Any) -> dict[str, Any]:
    """Return Keras' configuration of an optimizer, but the learning rate itself if it is a schedule or a function.

    Keras makes a second schedule only if its class is registered and has get_config(). A user's class may have neither.
    """
    rate = getattr(optimizer, "_learning_rate", None)
    if not callable(rate):
        return dict(optimizer.get_config())
    optimizer._learning_rate = 0.0
    try:
        return {**optimizer.get_config(), "learning_rate": rate}
    finally:
        optimizer._learning_rate = rate
