"""Libraries that are imported when they are first used: importing them takes longer than most commands do."""

from importlib import import_module
from typing import Any


class LazyModule:
    """Stand-in for a library until a name of it is used. Python 3.10's own, LazyLoader, fails if threads use it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
