"""Choice of a rank's GPU."""

from pathlib import Path

import pytest

from orchestrator.launch_layout import VISIBLE_GPUS
from orchestrator.trainer import gpu_of_rank


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the path whose existence says that this node has GPUs."""
    path = tmp_path / "nvidiactl"
    monkeypatch.setattr(gpu_of_rank, "DEVICE", path)
    monkeypatch.delenv(VISIBLE_GPUS, raising=False)
    return path


@pytest.mark.parametrize(("local_rank", "found", "index"), [(0, 1, 0), (1, 2, 1), (2, 2, 0), (3, 0, None)])
def test_ranks_share_the_gpus_that_are_found(device: Path, local_rank: int, found: int, index: int | None) -> None:
    assert gpu_of_rank.index(local_rank, found, "TensorFlow") == index


def test_a_framework_that_finds_no_gpu_ends_the_program(device: Path) -> None:
    device.touch()
    with pytest.raises(SystemExit, match=r"PyTorch finds no GPU, but .*nvidiactl.*`nvidia-smi`.*`gpu.driver: none`"):
        gpu_of_rank.index(0, 0, "PyTorch")


def test_a_user_may_hide_the_gpus(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device.touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_of_rank.index(0, 0, "TensorFlow") is None


def test_a_rank_with_a_gpu_of_its_own_must_find_it(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device.touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpu_of_rank.index(0, 0, "TensorFlow") is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(SystemExit, match="TensorFlow finds no GPU"):
        gpu_of_rank.index(1, 0, "TensorFlow")
