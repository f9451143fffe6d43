"""When the bfloat16 benchmark runs; `tests/trainer` runs it."""

import tempfile
from pathlib import Path

import pytest

from orchestrator.trainer import cpu_model, gpu_of_rank
from orchestrator.trainer.autotune import bf16_probe
from tests import samples


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe a node without a GPU, whose CPU has bfloat16 instructions, and which has measured nothing."""
    monkeypatch.setattr(gpu_of_rank, "DEVICE", tmp_path / "none")
    monkeypatch.setattr(cpu_model, "CPUINFO", cpuinfo(tmp_path, "fpu avx512f avx512_bf16 amx_tile"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def cpuinfo(directory: Path, flags: str) -> Path:
    """Write a cpuinfo file with these flags."""
    (directory / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    return directory / "cpuinfo"


def needed(**changes: object) -> bool:
    return bf16_probe.needed(samples.train_config(**{"precision": "auto", **changes}))


def test_benchmark_runs_only_if_its_result_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert needed()
    assert not needed(precision="float32")
    assert not needed(resume="/shared/runs/r/checkpoints/epoch-0001")
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
    assert not needed()
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "0")
    bf16_probe.entry(samples.train_config().threads).write({"gain": 1.5, "limited": False})
    assert not needed()


def test_benchmark_does_not_run_on_a_node_with_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_of_rank, "DEVICE", tmp_path)
    assert not needed()


@pytest.mark.parametrize("cause", ["damaged", "other CPU"])
def test_benchmark_runs_if_its_stored_result_is_unusable(tmp_path: Path, cause: str) -> None:
    entry = bf16_probe.entry(samples.train_config().threads)
    entry.write({"gain": 1.5, "limited": False})
    if cause == "damaged":
        entry.path.write_text("{")
    else:
        cpuinfo(tmp_path, "fpu avx512_bf16")
    assert needed()


@pytest.mark.parametrize(
    ("flags", "runs"),
    [("fpu avx2 fma avx512f avx512_vnni", False), ("fpu avx2 avx_ne_convert", True), ("fpu amx_bf16 amx_tile", True)],
)
def test_cpu_without_bfloat16_is_not_benchmarked(tmp_path: Path, flags: str, runs: bool) -> None:
    cpuinfo(tmp_path, flags)
    assert needed() is runs


def test_benchmark_runs_if_cpu_flags_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_model, "CPUINFO", tmp_path / "nowhere")
    assert needed()
