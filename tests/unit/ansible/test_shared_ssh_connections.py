"""The directory for sockets of shared ssh connections: location, permissions and removal."""

import stat
import tempfile
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.ansible import shared_ssh_connections


def test_socket_directory_is_private_with_a_new_name_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    state_dir = state.for_cluster("demo")
    state_dir.ansible.mkdir(parents=True)
    names = []
    for _ in range(2):
        with shared_ssh_connections.shared(state_dir) as sockets:
            names.append(sockets)
            assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert len(set(names)) == 2
    assert not any(path.exists() for path in (*names, shared_ssh_connections.link(state_dir)))


def test_only_a_private_directory_of_the_user_replaces_tmp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        for mode, expected in ((0o700, Path(short)), (0o755, Path("/tmp"))):
            Path(short).chmod(mode)
            monkeypatch.setenv("XDG_RUNTIME_DIR", short)
            assert shared_ssh_connections._runtime() == expected
        Path(short).chmod(0o700)
        link = tmp_path / "link"
        link.symlink_to(short)
        monkeypatch.setattr(shared_ssh_connections, "LONGEST_RUNTIME", 1000)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(link))
        assert shared_ssh_connections._runtime() == Path("/tmp")


def test_long_path_of_temporary_directory_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * shared_ssh_connections.LONGEST_RUNTIME)
    long.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert shared_ssh_connections._runtime() == Path("/tmp")


def test_temporary_directory_whose_name_ssh_changes_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="50%") as expanded:
        monkeypatch.setenv("XDG_RUNTIME_DIR", expanded)
        monkeypatch.setattr(tempfile, "tempdir", expanded)
        assert shared_ssh_connections._runtime() == Path("/tmp")


def test_only_own_directories_are_removed_through_the_link(tmp_path: Path) -> None:
    state_dir = state.for_cluster("demo")
    state_dir.ansible.mkdir(parents=True)
    other = tmp_path / "documents"
    other.mkdir()
    (tmp_path / "orchestrator-link").symlink_to(other)
    for target in (other, tmp_path / "orchestrator-link", tmp_path / "orchestrator-gone"):
        shared_ssh_connections.link(state_dir).symlink_to(target)
        shared_ssh_connections.forget(state_dir)
        assert other.is_dir()
        assert not shared_ssh_connections.link(state_dir).is_symlink()
