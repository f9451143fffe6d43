"""Store of measured values: files that are damaged or of another version, CPU or setting give no value."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.trainer import cpu_model
from orchestrator.trainer.autotune import measurements

CORE = "processor\t: {0}\nmodel name\t: {1}\ncpu MHz\t\t: 2{0}00.0\nflags\t\t: {2}\n\n"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces the CPU; it has two cores of a Xeon now."""

    def replace(model: str = "Xeon", flags: str = "fpu avx2") -> None:
        (tmp_path / "cpuinfo").write_text("".join(CORE.format(core, model, flags) for core in range(2)))

    monkeypatch.setattr(cpu_model, "CPUINFO", tmp_path / "cpuinfo")
    replace()
    return replace


def entry(directory: Path, **settings: object) -> measurements.Entry:
    return measurements.Entry("gain", directory, **{"threads": 2, **settings})


def test_stored_value_is_read_by_an_equal_entry(tmp_path: Path) -> None:
    assert entry(tmp_path).read(float) is None
    entry(tmp_path).write(1.5)
    assert entry(tmp_path, ranks=[["node", 1]]).read(float) is None
    entry(tmp_path, ranks=[["node", 1]]).write({"a": "b"})
    assert entry(tmp_path).read(float) == 1.5
    assert entry(tmp_path, ranks=[["node", 1]]).read(dict) == {"a": "b"}
    assert entry(tmp_path).path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("changed", ["version", "model", "flags", "threads", "oneDNN"])
def test_value_of_another_version_cpu_or_setting_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Callable[..., None], changed: str
) -> None:
    old = entry(tmp_path)
    old.write(1.5)
    if changed == "version":
        monkeypatch.setattr(measurements, "__version__", "0.0.1")
    elif changed == "oneDNN":
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    elif changed != "threads":
        machine(**{changed: "another"})
    new = entry(tmp_path, threads=1 if changed == "threads" else 2)
    assert new.read(float) is None
    old.path.rename(new.path)  # as a person could copy it
    assert new.read(float) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\0" * 100,
        b"\xff",
        b"[]",
        b"null",
        b'{"value": 1.5}',
        b'{"depends": {}, "value": 1.5}',
        b"[" * 99999,
    ],
    ids=range(9),
)
def test_damaged_file_gives_no_value_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    entry(tmp_path).path.write_bytes(content)
    assert entry(tmp_path).read(float) is None
    entry(tmp_path).write(1.5)
    assert entry(tmp_path).read(float) == 1.5


def test_pipe_or_value_of_another_type_gives_no_value(tmp_path: Path) -> None:
    os.mkfifo(entry(tmp_path).path)
    assert entry(tmp_path).read(float) is None
    entry(tmp_path).write("fast")
    assert entry(tmp_path).read(float) is None


def test_kind_of_cpu_does_not_depend_on_cores_and_their_frequency(machine: Callable[..., None]) -> None:
    both = cpu_model.kind()
    cpu_model.CPUINFO.write_text(CORE.format(7, "Xeon", "fpu avx2"))
    assert cpu_model.kind() == both
    cpu_model.CPUINFO.unlink()
    assert cpu_model.kind() != both
