"""Files replaced atomically: their content after a failed write or a killed process."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.errors import ConfigError
from orchestrator.schema import Checkpoints
from orchestrator.schema.atomic_write import replaced
from tests import waiting
from tests.unit.conftest import Start

WRITE = """
import pathlib, sys, time
from orchestrator.schema.atomic_write import replaced
with replaced(pathlib.Path(sys.argv[1]), 0o600) as file:
    file.write(b"half of it")
    print("writing", flush=True)
    time.sleep(60)
"""


def start_write(start: Start, path: Path) -> "subprocess.Popen[str]":
    process = start("-c", WRITE, str(path))
    assert waiting.read_line(process) == "writing"
    return process


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_write_leaves_the_old_file(start: Start, tmp_path: Path, by: signal.Signals) -> None:
    path = tmp_path / "state.json"
    state.replace(path, "old")
    writer = start_write(start, path)
    writer.send_signal(by)
    writer.wait(10)
    assert path.read_text() == "old"
    if by == signal.SIGINT:
        assert list(tmp_path.iterdir()) == [path]
    state.replace(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_file_of_a_running_write_is_kept(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    start_write(start, path)
    state.replace(path, "new")
    assert len(list(tmp_path.iterdir())) == 2


def test_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    state.replace(path, "old")

    def fails() -> None:
        with replaced(path, 0o600) as file:
            file.write(b"half of it")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fails()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_failed_rename_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    with pytest.raises(ConfigError):
        state.replace(tmp_path / "state.json", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_leftovers_are_removed_and_other_hidden_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    for name in (".index.json.999999999-abcd_123", ".index.json.lock.info", ".other.json.abcd_123", ".index.json"):
        (tmp_path / name).touch()
    Checkpoints().write(path)
    assert json.loads(path.read_text())["entries"] == []
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [".index.json", ".index.json.lock.info", ".other.json.abcd_123", "index.json"]
