"""Kernel limits of this machine that local nodes use."""

from pathlib import Path

import pytest

from orchestrator.errors import PreflightError
from orchestrator.providers.local import capacity


@pytest.fixture(autouse=True)
def usual_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a kernel with default limits."""
    limits = tmp_path / "fs" / "inotify"
    limits.mkdir(parents=True)
    (limits / "max_user_instances").write_text("128\n")
    (limits / "max_user_watches").write_text("16384\n")
    monkeypatch.setattr(capacity, "KERNEL", tmp_path)
    return limits


def test_32_nodes_fit_in_the_default_limits() -> None:
    capacity.require_inotify(32, 0)


@pytest.mark.parametrize(("nodes", "others"), [(64, 0), (32, 8)])
def test_too_few_instances_are_refused_with_the_setting(nodes: int, others: int) -> None:
    with pytest.raises(PreflightError, match=r"fs\.inotify\.max_user_instances is 128") as caught:
        capacity.require_inotify(nodes, others)
    assert f"for {36 - others} more nodes at most" in caught.value.message
    assert "`sudo sysctl -w fs.inotify.max_user_instances=8192`" in caught.value.hint


def test_setting_of_the_remedy_is_sufficient(usual_kernel: Path) -> None:
    for name, limit in capacity.INOTIFY.items():
        (usual_kernel / name.rpartition(".")[2]).write_text(str(limit.ample))
    capacity.require_inotify(100, 100)


def test_too_few_watches_are_refused_too(usual_kernel: Path) -> None:
    (usual_kernel / "max_user_watches").write_text("4500")
    with pytest.raises(PreflightError, match=r"max_user_watches is 4500"):
        capacity.require_inotify(32, 0)
