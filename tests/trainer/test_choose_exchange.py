"""Choice of 16 or 32 bits for gradients, measured by ranks together, here by a single one."""

from pathlib import Path

import pytest

from orchestrator.trainer import cpu_model
from orchestrator.trainer.autotune import choose_exchange
from orchestrator.trainer.comm import allreduce


@pytest.mark.parametrize(
    ("size", "measured"),
    [(4, 1 << 16), ((1 << 20) - 4, 1 << 20), (1 << 20, 1 << 20), ((1 << 20) + 4, 1 << 21), (102_000_000, 32 << 20)],
)
def test_gradients_are_measured_in_a_group_of_about_their_size(size: int, measured: int) -> None:
    assert choose_exchange.measured_size(size) == measured


def test_value_is_measured_once_for_the_same_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allreduce.begin()
    measured: list[float] = []

    def measure() -> float:
        measured.append(float(len(measured)))
        return measured[-1]

    def value(threads: int = 2) -> float:
        return choose_exchange.measured_together("test", tmp_path, threads, measure)

    assert [value(), value(), value(1), value(1), value()] == [0.0, 0.0, 1.0, 1.0, 0.0]
    for path in tmp_path.iterdir():
        path.write_text("{")
    assert [value(), value()] == [2.0, 2.0]
    monkeypatch.setattr(cpu_model, "CPUINFO", tmp_path / "another")
    assert [value(), value()] == [3.0, 3.0]
    assert choose_exchange.measured_together("test", tmp_path / "missing", 2, measure) == 4.0  # cannot be stored
