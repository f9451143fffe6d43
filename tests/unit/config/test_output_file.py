"""Files that users name as outputs: links and pipes stay what they are."""

import os
import stat
from pathlib import Path

import pytest

from orchestrator.config import output_file
from orchestrator.errors import ConfigError


def test_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "target.html", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(Path("there") / "target.html")
    for content in (b"new target", b"old target"):
        output_file.write(content, link, "--output")
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(("umask", "before", "after"), [
    (0o022, None, 0o644), (0o077, None, 0o600), (0o002, None, 0o664), (0o022, 0o600, 0o600), (0o077, 0o664, 0o664),
])  # fmt: skip
def test_mode_is_that_of_the_file_before_or_follows_the_umask(
    tmp_path: Path, umask: int, before: int | None, after: int
) -> None:
    path, link = tmp_path / "page", tmp_path / "link"
    link.symlink_to(path)
    if before is not None:
        path.touch()
        path.chmod(before)
    earlier = os.umask(umask)
    try:
        output_file.write(b"content", link, "--output")
        assert os.umask(umask) == umask
    finally:
        os.umask(earlier)
    assert stat.S_IMODE(path.stat().st_mode) == after


@pytest.mark.parametrize("linked", [False, True])
def test_pipe_is_written_into(tmp_path: Path, linked: bool) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    output_file.write(b"content", link if linked else pipe, "--output")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "reason"), [("", "Is a directory"), ("no/page", "No such file"), ("loop", "symbolic")]
)
def test_path_that_cannot_be_written_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match=rf"--output: {tmp_path / name}: .*{reason}"):
        output_file.write(b"content", tmp_path / name, "--output")
