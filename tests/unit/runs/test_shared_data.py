"""Data sets on the shared storage of the nodes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.runs import shared_data
from orchestrator.runs.datasets import FoundDataset
from tests.stand_ins import ssh_stand_in


def test_full_shared_storage_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with (tmp_path / "a.jpg").open("wb") as file:
        file.truncate(140 << 30)
    data = FoundDataset("imagenet", tmp_path, ["a.jpg"], train=1, test=1, note="")

    def answer(command: str) -> bytes | None:
        return None if command.startswith("test ") else f"Avail\n{20 << 30}\n".encode()

    with ssh_stand_in.session(answer) as head, pytest.raises(ConfigError) as caught:
        shared_data.upload(head, data, "demo")
    has = "imagenet has 140.0 GiB, /shared on the nodes has 20.0 GiB free, of which 1 GiB must stay free"
    assert caught.value.message == f"train.data: {has}"
    assert (
        "`orchestrator ssh --cluster demo` opens a terminal on the head: remove data in /shared/data"
        in caught.value.hint
    )


def interrupted(tmp_path: Path) -> FoundDataset:
    """Return a data set of which an interrupted copy has sent one file, and half of another."""
    local = tmp_path / "local"
    for name in ("n 1/ä.jpg", "n 1/b.jpg", "c.jpg"):
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_bytes(b"local")
    data = FoundDataset("imagenet", local, ["n 1/ä.jpg", "n 1/b.jpg", "c.jpg"], train=2, test=1, note="")
    data.__dict__["remote"] = str(tmp_path / "remote")
    unfinished = tmp_path / f"remote.unfinished-{shared_data.sender()}" / "n 1"
    unfinished.mkdir(parents=True)
    (unfinished / "ä.jpg").write_bytes(b"there")
    (unfinished / "b.jpg").write_bytes(b"lo")
    return data


def room(free: int) -> Callable[[str], bytes | None]:
    """Return answers of a head with ``free`` bytes beyond those that must stay free."""
    return lambda command: f"Avail\n{free + (1 << 30)}\n".encode() if command.startswith("df ") else None


def test_interrupted_copy_continues_with_the_files_that_are_missing_or_cut(tmp_path: Path) -> None:
    data = interrupted(tmp_path)
    with ssh_stand_in.session(room(free=10)) as head:
        assert shared_data.upload(head, data, "demo") == data.remote
    contents = {name: (tmp_path / "remote" / name).read_bytes() for name in data.files}
    assert contents == {"n 1/ä.jpg": b"there", "n 1/b.jpg": b"local", "c.jpg": b"local"}
    assert {path.name for path in tmp_path.iterdir()} == {"local", "remote"}


def test_two_machines_copy_the_same_data_set_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one, which finishes first, may train already: its files stay as they are."""
    data, remote = interrupted(tmp_path), tmp_path / "remote"

    def answer(command: str) -> bytes | None:
        if command.startswith("tar ") and not remote.exists():
            monkeypatch.setattr("socket.gethostname", lambda: "another")
            with ssh_stand_in.session(room(free=100)) as other:
                assert shared_data.upload(other, data, "demo") == data.remote
            files.extend((remote / name).stat() for name in data.files)
        return room(free=100)(command)

    files: list[os.stat_result] = []
    with ssh_stand_in.session(answer) as head:
        assert shared_data.upload(head, data, "demo") == data.remote
    assert [(remote / name).stat() for name in data.files] == files
    assert {path.name for path in tmp_path.iterdir()} == {"local", "remote"}


def test_room_is_needed_only_for_the_rest_of_an_interrupted_copy(tmp_path: Path) -> None:
    with ssh_stand_in.session(room(free=25)) as head:
        shared_data.require_space_for_records(head, interrupted(tmp_path), "demo")  # 10 bytes of files, 15 of shards
