"""Directory of checkpoints after a kill at any moment."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.schema import CheckpointEntry
from orchestrator.trainer.checkpoints import checkpoint_directory as checkpoints_directory
from orchestrator.trainer.checkpoints.checkpoint_directory import Storage


def entry(name: str, step: int, top1: float | None = None) -> CheckpointEntry:
    return CheckpointEntry(name=name, epoch=1, step=step, world=2, whole=True, top1=top1)


def filled(text: str) -> Callable[[Path], object]:
    return lambda state_dir: (state_dir / "state").write_text(text)


class Killed(BaseException):
    """Raised to end a write like a kill."""


@pytest.fixture
def written(tmp_path: Path) -> Storage:
    storage = Storage(tmp_path, limit=2)
    storage.add(entry("epoch-0001", 10), filled("first"))
    return storage


def named(directory: Path) -> list[str]:
    """Return the contents of the checkpoints that the index on the disk lists."""
    return [(directory / point.name / "state").read_text() for point in checkpoints_directory.read(directory).entries]


@pytest.mark.parametrize("last", ["fill", "flush", "rename", "index"])
def test_checkpoint_stays_until_its_replacement_is_listed(
    written: Storage, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    def killed(*arguments: object, **options: object) -> None:
        raise Killed

    fill = killed if last == "fill" else filled("second")
    if last == "flush":
        monkeypatch.setattr(os, "fsync", killed)
    if last == "rename":
        monkeypatch.setattr(Path, "rename", killed)
    if last == "index":
        monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(Killed):
        written.add(entry("epoch-0001", 10), fill)
    monkeypatch.undo()
    assert named(written.directory) == ["first"]


def test_checkpoint_without_space_leaves_none_of_its_files(written: Storage) -> None:
    def fill(directory: Path) -> None:
        (directory / "state").write_text("a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        written.add(entry("epoch-0002", 20), fill)
    assert sorted(path.name for path in written.directory.iterdir()) == ["epoch-0001", "index.json"]
    assert named(written.directory) == ["first"]


def test_checkpoint_written_again_replaces_the_other(written: Storage) -> None:
    for text in ("second", "third"):
        written.add(entry("epoch-0001", 10), filled(text))
        assert named(written.directory) == [text]
        assert [p.is_dir() for p in written.directory.iterdir()].count(True) == 1
    assert written.newest == entry("epoch-0001", 10)
    written.add(entry("epoch-0002", 20, top1=0.5), filled("later"))
    assert named(written.directory) == ["third", "later"]


def test_evaluation_is_added_to_a_replaced_checkpoint(written: Storage) -> None:
    written.add(entry("epoch-0001", 10), filled("second"))
    assert written.newest
    written.publish(written.newest.model_copy(update={"top1": 0.9}))
    index = checkpoints_directory.read(written.directory)
    assert (len(index.entries), index.entries[0].top1, index.best) == (1, 0.9, index.entries[0].name)
    assert named(written.directory) == ["second"]


def test_checkpoint_at_the_end_of_an_epoch_stays_among_later_ones(written: Storage) -> None:
    for step in (12, 14, 16):
        written.add(entry(f"epoch-0002-step-{step}", step).model_copy(update={"whole": False}), filled(f"at {step}"))
    assert named(written.directory) == ["first", "at 14", "at 16"]
    written.add(entry("epoch-0002", 20), filled("second"))
    assert named(written.directory) == ["at 16", "second"]
