"""Files that users name as outputs: links and pipes stay what they are."""

import os
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
