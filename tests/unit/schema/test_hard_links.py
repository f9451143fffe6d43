"""Hard links, and copies on file systems without them."""

import errno
import os
from pathlib import Path

import pytest

from orchestrator.schema.hard_links import link_or_copy


def test_file_is_linked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    link_or_copy(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").samefile(tmp_path / "a")


def test_file_is_copied_on_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a").write_text("content")
    link_or_copy(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_text() == "content"
    assert not (tmp_path / "b").samefile(tmp_path / "a")
