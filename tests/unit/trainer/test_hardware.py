"""Hardware of a node as listed by its kernel, and the packages of a run."""

import json
import sys
from pathlib import Path

import pytest

from orchestrator.schema import Hardware
from orchestrator.schema.packages import Installed
from orchestrator.trainer.supervision import installed_packages
from orchestrator.trainer.telemetry import hardware

INTEL = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: sse avx\n\nprocessor\t: 1\nmodel name\t: other\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n"
VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version: 12.2.0\n"
)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory in place of /proc and /sys."""
    for name in ("CPU", "SYSTEM", "MACHINE", "NETWORK", "NVIDIA"):
        monkeypatch.setattr(hardware, name, tmp_path / name.lower())
    return tmp_path


def reported() -> Hardware:
    return Hardware.model_validate(hardware.report("eth0", 1 << 30), strict=True)


def test_this_machine_is_described() -> None:
    described = reported()
    assert described.cpus > 0
    assert described.kernel
    assert described.architecture


@pytest.mark.parametrize(
    ("text", "model", "flags"), [(INTEL, "Intel(R) Xeon(R)", ["avx", "sse"]), (ARM, "0xd0c", ["asimd", "fp"])]
)
def test_cpu_is_that_of_the_first_core(kernel: Path, text: str, model: str, flags: list[str]) -> None:
    (kernel / "cpu").write_text(text)
    assert (reported().cpu_model, reported().cpu_flags) == (model, flags)


def test_gpus_network_and_system_are_read(kernel: Path) -> None:
    (kernel / "nvidia" / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (kernel / "nvidia" / "gpus" / "0000:01:00.0" / "information").write_text("Model: \t\t NVIDIA A100\nIRQ: 1\n")
    (kernel / "nvidia" / "version").write_text(VERSION)
    (kernel / "network" / "eth0" / "device").mkdir(parents=True)
    (kernel / "network" / "eth0" / "speed").write_text("10000\n")
    (kernel / "drivers" / "mlx5_core").mkdir(parents=True)
    (kernel / "network" / "eth0" / "device" / "driver").symlink_to(kernel / "drivers" / "mlx5_core")
    (kernel / "system").write_text('NAME="Debian"\nPRETTY_NAME="Debian 12"\n')
    described = reported()
    assert (described.gpus, described.gpu_driver) == (["NVIDIA A100"], "535.183.01")
    assert (described.nic_driver, described.nic_mbits, described.system) == ("mlx5_core", 10_000, "Debian 12")


def test_unreadable_values_are_left_out(kernel: Path) -> None:
    (kernel / "network" / "eth0").mkdir(parents=True)
    (kernel / "network" / "eth0" / "speed").write_text("-1\n")  # of an interface without a link
    described = reported()
    assert (described.cpu_model, described.cpu_flags, described.gpus, described.gpu_driver) == (None, [], [], None)
    assert (described.nic_driver, described.nic_mbits, described.machine) == (None, None, None)


def test_packages_of_image_and_overlay_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "packages.json").write_text(json.dumps({"packages": {"einops": "0.8.0"}}))
    monkeypatch.setenv("PATH", f"{tmp_path}/overlay/bin:/usr/bin")
    installed_packages.write(tmp_path)
    packages = Installed.model_validate_json((tmp_path / "packages.json").read_text())
    assert packages.overlay == {"einops": "0.8.0"}
    assert "pydantic" in packages.image
    installed_packages.write(tmp_path / "missing")


def test_packages_that_an_interrupted_pip_left_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for directory in ("a-1.0.dist-info", "b-2.0.dist-info", "whole-3.0.dist-info"):
        (tmp_path / directory).mkdir()
    (tmp_path / "a-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\n")
    (tmp_path / "whole-3.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: whole\nVersion: 3.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    installed_packages.write(tmp_path)
    assert Installed.model_validate_json((tmp_path / "packages.json").read_text()).image == {"whole": "3.0"}


def test_packages_that_cannot_be_listed_do_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packages.json").write_text("[]")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    installed_packages.write(tmp_path)
