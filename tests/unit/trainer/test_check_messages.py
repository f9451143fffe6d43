"""Messages of `check`, with stand-ins for the frameworks. With the frameworks: tests/trainer, in the image."""

import importlib
import sys
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest


class Sums:
    """Tensor on a GPU, of which only elements are copied."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def __getitem__(self, number: int) -> Any:
        return self.numbers[number]

    def __float__(self) -> float:
        return float(self.numbers)


@pytest.fixture
def horovod() -> MagicMock:
    """Return Horovod on two ranks that sums as it should."""
    hvd = MagicMock(Sum="sum", Max="max", rank=lambda: 1, size=lambda: 2)

    def allreduce(numbers: Any, op: str, name: str) -> Any:
        return Sums(2 * numbers if op == "sum" else numbers)

    hvd.allreduce = allreduce
    return hvd


def measurements(monkeypatch: pytest.MonkeyPatch, horovod: MagicMock, framework: str) -> ModuleType:
    """Import the measurements of a framework."""
    short = {"tensorflow": "tensorflow", "pytorch": "torch"}[framework]
    stand_in = MagicMock(ones=np.ones, zeros=np.zeros, function=lambda **_: lambda function: function)
    stand_in.tensor = lambda value, device: np.array(value)
    package = MagicMock(**{short: horovod})
    for name, replaced in {short: stand_in, "horovod": package, f"horovod.{short}": horovod}.items():
        monkeypatch.setitem(sys.modules, name, replaced)
    name = f"orchestrator.trainer.check.{framework}_measurements"
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


@pytest.mark.parametrize("framework", ["tensorflow", "pytorch"])
def test_wrong_sum_of_a_message_ends_the_check(
    monkeypatch: pytest.MonkeyPatch, horovod: MagicMock, framework: str
) -> None:
    measurements(monkeypatch, horovod, framework)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: framework == name or None)
    monkeypatch.delitem(sys.modules, "orchestrator.trainer.check.__main__", raising=False)
    check = importlib.import_module("orchestrator.trainer.check.__main__")
    assert check._measure_message(64).bytes == 64
    horovod.allreduce = lambda numbers, op, name: numbers
    with pytest.raises(SystemExit, match="rank 1: the allreduce of 1,024 bytes of ones gave 1, expected 2"):
        check._measure_message(1024)
