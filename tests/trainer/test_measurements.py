"""Values that ranks measure together, here with a single rank."""

from pathlib import Path

import pytest

from orchestrator.trainer import cpu_model
from orchestrator.trainer.autotune import measurements
from orchestrator.trainer.comm import allreduce


def test_value_is_measured_once_for_the_same_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allreduce.begin()
    measured: list[float] = []

    def measure() -> float:
        measured.append(float(len(measured)))
        return measured[-1]

    def value(threads: int = 2) -> float:
        return measurements.measured_together("test", tmp_path, threads, measure)

    assert [value(), value(), value(1), value(1), value()] == [0.0, 0.0, 1.0, 1.0, 0.0]
    for path in tmp_path.iterdir():
        path.write_text("{")
    assert [value(), value()] == [2.0, 2.0]
    monkeypatch.setattr(cpu_model, "CPUINFO", tmp_path / "another")
    assert [value(), value()] == [3.0, 3.0]
    assert measurements.measured_together("test", tmp_path / "missing", 2, measure) == 4.0  # cannot be stored
