"""Free space on the disks of a simulated engine."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.docker import disk_space
from orchestrator.docker import engine as engine_module
from orchestrator.errors import PreflightError
from tests.unit.conftest import Connect

CONTAINERD_STORE = [["driver-type", "io.containerd.snapshotter.v1"]]


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a directory with two disks: Docker's, with 100 GiB free, and the full one of containerd."""
    free = {tmp_path / "docker": 100 << 30, tmp_path / "containerd": 1 << 20}
    for directory in free:
        directory.mkdir()
    monkeypatch.setattr(shutil, "disk_usage", lambda directory: SimpleNamespace(free=free[directory]))
    monkeypatch.setattr(engine_module, "CONTAINERD", tmp_path / "containerd")
    return tmp_path


def test_disk_of_containerds_image_store_is_checked(engine: Connect, disks: Path) -> None:
    facts = {"DockerRootDir": str(disks / "docker"), "Driver": "overlayfs", "DriverStatus": CONTAINERD_STORE}
    docker = engine({"/info": (200, [facts])})
    with pytest.raises(PreflightError, match=rf"the disk of {disks}/containerd is full: 0\.0 GiB free"):
        disk_space.require(docker, 8 << 30)
    with pytest.raises(PreflightError, match=f"the disk of {disks}/containerd is full"):
        disk_space.require_not_full(docker)
    (disks / "containerd").rmdir()
    disk_space.require(docker, 8 << 30)


def test_disk_of_containerd_matters_only_for_its_image_store(engine: Connect, disks: Path) -> None:
    facts = {"DockerRootDir": str(disks / "docker"), "DriverStatus": [["Backing Filesystem", "extfs"]]}
    disk_space.require(engine({"/info": (200, [facts])}), 8 << 30)


def test_data_root_that_only_root_may_see_is_not_checked(engine: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Permission denied")

    docker = engine({"/info": (200, [{"DockerRootDir": "/var/lib/docker/100000.100000"}])})
    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(shutil, "disk_usage", refuse)
    disk_space.require(docker, 8 << 30)
    assert "/var/lib/docker/100000.100000" in disk_space.full(docker, "no space left").message
