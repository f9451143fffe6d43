"""Let functions for TensorFlow variables accept the variables of Keras 3, which wrap them."""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any


def native(value: Any) -> Any:
    """Return the TensorFlow variable inside a Keras 3 variable, and any other value as it is."""
    kind = getattr(sys.modules.get("keras"), "Variable", None)  # not imported: no value is a variable of Keras 3
    return value.value if kind and isinstance(value, kind) else value


def _native_all(value: Any) -> Any:
    if isinstance(value, list) or type(value) is tuple:
        return [_native_all(element) for element in value]
    return native(value)


def accept_keras(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function so that its arguments, and lists in them, may be or hold variables of Keras 3."""

    @functools.wraps(function)
    def accepting(*args: Any, **kwargs: Any) -> Any:
        named = {name: _native_all(value) for name, value in kwargs.items()}
        return function(*map(_native_all, args), **named)

    return accepting


def unique_names(variables: Iterable[Any]) -> list[str]:
    """Return different names for variables; Keras 3 names those of all layers alike (kernel)."""
    counts: dict[str, int] = {}
    names = []
    for variable in variables:
        count = counts[variable.name] = counts.get(variable.name, -1) + 1
        names.append(f"{variable.name}_{count}" if count else variable.name)
    return names
