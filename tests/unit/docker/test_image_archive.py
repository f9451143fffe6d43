"""Archives of images for nodes without Docker."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from orchestrator.docker import image_archive
from orchestrator.docker.engine import Engine
from orchestrator.errors import CommandFailed, PreflightError
from tests.stand_ins import docker_stand_in
from tests.stand_ins.docker_stand_in import Answers
from tests.unit.conftest import Connect

TAG = "orchestrator-trainer:0123456789ab"
Saving = Callable[..., Engine]


@pytest.fixture
def saving(engine: Connect) -> Saving:
    """Return a function that simulates an engine that exports an image as these JSON documents."""

    def at_engine(*documents: Any) -> Engine:
        answers: Answers = {
            "/containers/create": (201, [{"Id": "made"}]) if documents else (404, [{"message": "No such image"}]),
            "/containers/made/export": (200, list(documents)),
            f"/containers/orchestrator-export-{os.getuid()}-{TAG.partition(':')[2]}/json": (404, [{"message": "none"}]),
        }
        return engine(answers)

    return at_engine


def test_archive_is_complete_compressed_and_private(saving: Saving, tmp_path: Path) -> None:
    documents = [f"{number}" * 1000 for number in range(200)]
    path, counts = tmp_path / "new" / "trainer.tar.zst", list[int]()
    image_archive.write(saving(*documents), TAG, path, counts.append)
    content = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    assert content.decode() == "".join(json.dumps(document) for document in documents)
    assert counts == sorted(counts)
    assert counts[-1] == len(content)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_truncated_image_leaves_no_archive(saving: Saving, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="export an image"):
        image_archive.write(saving("half", docker_stand_in.TRUNCATED), TAG, tmp_path / "archives" / "trainer.tar.zst")
    assert list((tmp_path / "archives").iterdir()) == []


def test_missing_image_is_named(saving: Saving, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=f"docker create {TAG}.*No such image"):
        image_archive.write(saving(), TAG, tmp_path / "trainer.tar.zst")


def test_unwritable_archive_is_named_with_its_place(saving: Saving, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PreflightError, match="file") as caught:
        image_archive.write(saving("whole"), TAG, tmp_path / "file" / "trainer.tar.zst")
    assert caught.value.hint == f"free space in {tmp_path}/file"
