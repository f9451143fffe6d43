"""Snapshots in shared memory, with real processes and locks."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.trainer.telemetry import snapshots
from orchestrator.trainer.telemetry.snapshots import Snapshot

HOLD = (
    "import sys, time; from pathlib import Path; from orchestrator.trainer.telemetry.snapshots import Snapshot;"
    "held = Snapshot(Path(sys.argv[1]), 'run', 0); held.write(b'a rank\\n'); print(flush=True); time.sleep(600)"
)


def rank(directory: Path) -> "subprocess.Popen[bytes]":
    """Start a process that has written its file and holds it."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(directory)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_last_content_of_a_living_rank_is_read(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path, "run", 3)
    for content in (b"first, and longer\n", b"second\n"):
        snapshot.write(content)
        assert list(snapshots.live(tmp_path)) == [content]
    snapshot.remove()
    assert list(tmp_path.iterdir()) == []


def test_snapshot_of_a_killed_rank_is_removed(tmp_path: Path) -> None:
    process = rank(tmp_path)
    assert list(snapshots.live(tmp_path)) == [b"a rank\n"]
    kill(process)
    (tmp_path / "run.0.next").write_bytes(b"it died while it wrote")
    assert list(snapshots.live(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_deleted_snapshot_returns_with_the_next_write(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path, "run", 0)
    snapshot.write(b"one\n")
    snapshot.path.unlink()
    snapshot.write(b"two\n")
    assert list(snapshots.live(tmp_path)) == [b"two\n"]
    snapshot.remove()


def test_restarted_rank_replaces_the_dead_one(tmp_path: Path) -> None:
    kill(rank(tmp_path))
    again = Snapshot(tmp_path, "run", 0)
    again.write(b"again\n")
    assert list(snapshots.live(tmp_path)) == [b"again\n"]
    again.remove()


def test_replacement_while_reading_does_not_look_dead(
    tmp_path: Path,
) -> None:
    """Thousands of replacements during reads: the file never disappears, and is never incomplete."""
    command = HOLD.replace("time.sleep(600)", "[held.write(b'a rank\\n' * n) for n in range(1, 4000)]; time.sleep(600)")
    held = subprocess.Popen([sys.executable, "-c", command, str(tmp_path)], stdout=subprocess.PIPE)
    assert held.stdout is not None
    held.stdout.readline()
    sizes = [len(content) for _ in range(2000) for content in snapshots.live(tmp_path)]
    assert (tmp_path / "run.0.prom").exists()
    assert {size % len(b"a rank\n") for size in sizes} == {0}
    assert sizes == sorted(sizes)
    assert len(sizes) > 1000
    kill(held)


def test_directory_is_sticky_and_writable_for_all(tmp_path: Path) -> None:
    before = os.umask(0o077)
    snapshot = Snapshot(tmp_path / "made", "run", 0)
    snapshot.write(b"")
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o1777
    assert stat.S_IMODE(snapshot.path.stat().st_mode) == 0o644
    snapshot.remove()


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run.0.prom").symlink_to(tmp_path / "secret")
    assert list(snapshots.live(tmp_path)) == []
    assert (tmp_path / "secret").exists()


def test_directories_named_as_snapshots_stay_closed(tmp_path: Path) -> None:
    for name in ("run.0.prom", "run.1.last"):
        (tmp_path / name).mkdir()
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    assert list(snapshots.live(tmp_path)) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_failed_write_leaves_no_unfinished_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    snapshot = Snapshot(tmp_path, "run", 0)
    snapshot.write(b"first\n")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space"):
            snapshot.write(b"second\n")
    assert [path.name for path in tmp_path.iterdir()] == ["run.0.prom"]
    snapshot.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_an_ended_rank_left_is_read_for_some_seconds(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path, "run", 0)
    snapshot.write(b"steps and scores\n")
    snapshot.leave(b"scores\n")
    assert [path.name for path in tmp_path.iterdir()] == ["run.0.last"]
    for _ in range(2):
        assert list(snapshots.live(tmp_path)) == [b"scores\n"]
    for age in (snapshots.LAST_SECONDS, -3600.0):
        snapshot.leave(b"scores\n")
        left = tmp_path / "run.0.last"
        os.utime(left, (left.stat().st_mtime - age,) * 2)
        assert list(snapshots.live(tmp_path)) == []
        assert not left.exists()


def test_restarted_rank_hides_what_the_ended_one_left(tmp_path: Path) -> None:
    Snapshot(tmp_path, "run", 0).leave(b"scores\n")
    again = Snapshot(tmp_path, "run", 0)
    again.write(b"again\n")
    assert list(snapshots.live(tmp_path)) == [b"again\n"]
    again.remove()


def test_ending_rank_removes_old_files_without_an_exporter(tmp_path: Path) -> None:
    Snapshot(tmp_path, "old", 0).leave(b"scores\n")
    os.utime(tmp_path / "old.0.last", (0, 0))
    Snapshot(tmp_path, "new", 0).leave(b"scores\n")
    assert [path.name for path in tmp_path.iterdir()] == ["new.0.last"]
