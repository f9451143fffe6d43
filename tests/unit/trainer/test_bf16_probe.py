"""Start of the bfloat16 benchmark, with a one-line program in its place."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from orchestrator.trainer import cpu_model, gpu_of_rank
from orchestrator.trainer.autotune import bf16_probe
from tests import samples


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with a line for each start of the program, which fails unless it is limited."""
    program, log = tmp_path / "python", tmp_path / "started"
    program.write_text(f'#!/bin/sh\necho >> {log}\n[ "$LIMITED" ] || kill -ILL $$\necho gain 1.5\n')
    program.chmod(0o755)
    log.touch()
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(bf16_probe, "_started", [])
    monkeypatch.setattr(gpu_of_rank, "DEVICE", tmp_path / "none")
    monkeypatch.setattr(cpu_model, "CPUINFO", cpuinfo(tmp_path, "fpu avx512f avx512_bf16 amx_tile"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return log


def cpuinfo(directory: Path, flags: str) -> Path:
    """Write a cpuinfo file with these flags."""
    (directory / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    return directory / "cpuinfo"


def begin(directory: Path, **changes: object) -> int:
    """Return how many programs run after the start."""
    samples.train_config(**changes).write(directory / "config.json")
    bf16_probe.start_in_background(directory)
    return len(bf16_probe._started)


def test_running_benchmark_is_not_started_again(started: Path, tmp_path: Path) -> None:
    assert begin(tmp_path, precision="auto") == 1
    assert bf16_probe.run_benchmark(1, {}) is None
    assert bf16_probe.run_benchmark(1, {"LIMITED": "yes"}) == "1.5"
    assert started.read_text() == "\n\n"


def test_benchmark_that_times_out_is_killed(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(sys.executable).write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(bf16_probe, "SECONDS", 0.2)
    slow = bf16_probe._popen(1, {})
    bf16_probe._started.append(slow)
    with pytest.raises(subprocess.TimeoutExpired):
        bf16_probe.run_benchmark(1, {})
    assert slow.returncode == -signal.SIGKILL


def test_benchmark_starts_only_if_needed(started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert begin(tmp_path, precision="float32") == 0
    assert begin(tmp_path, precision="auto", resume="/shared/runs/r/checkpoints/epoch-0001") == 0
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
    assert begin(tmp_path, precision="auto") == 0
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "0")
    bf16_probe.entry(samples.train_config().threads).write({"gain": 1.5, "limited": False})
    assert begin(tmp_path, precision="auto") == 0


@pytest.mark.parametrize("cause", ["damaged", "other CPU"])
def test_benchmark_starts_if_its_result_is_unusable(started: Path, tmp_path: Path, cause: str) -> None:
    entry = bf16_probe.entry(samples.train_config().threads)
    entry.write({"gain": 1.5, "limited": False})
    if cause == "damaged":
        entry.path.write_text("{")
    else:
        cpuinfo(tmp_path, "fpu avx512_bf16")
    assert begin(tmp_path, precision="auto") == 1


def test_probe_imports_only_the_standard_library() -> None:
    code = "import sys{}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    plain, probe = (
        subprocess.run([sys.executable, "-c", code.format(more)], check=True, capture_output=True, text=True).stdout
        for more in ("", ", orchestrator.trainer.autotune.bf16_probe")
    )
    assert set(probe.split()) - set(plain.split()) - sys.stdlib_module_names == {"orchestrator"}


@pytest.mark.parametrize(
    ("flags", "programs"),
    [("fpu avx2 fma avx512f avx512_vnni", 0), ("fpu avx2 avx_ne_convert", 1), ("fpu amx_bf16 amx_tile", 1)],
)
def test_cpu_without_bfloat16_is_not_benchmarked(started: Path, tmp_path: Path, flags: str, programs: int) -> None:
    cpuinfo(tmp_path, flags)
    assert begin(tmp_path, precision="auto") == programs


def test_benchmark_runs_if_cpu_flags_are_unknown(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_model, "CPUINFO", tmp_path / "nowhere")
    assert begin(tmp_path, precision="auto") == 1


def test_unreadable_config_starts_no_benchmark(started: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[")
    bf16_probe.start_in_background(tmp_path)
    bf16_probe.start_in_background(tmp_path / "nowhere")
    assert bf16_probe._started == []
