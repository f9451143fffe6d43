"""Inspection of any data set: messages and JSON output."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.trainer.data import inspect_dataset
from orchestrator.trainer.data.inspection import DataError, DatasetFiles
from tests import samples

IMAGES = "t10k-images-idx3-ubyte"
OTHER_USER = 65534


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (Path.mkdir, "data: empty"),
        (Path.touch, "data is a file: name the directory it is in"),
        (lambda path: None, "data: no such directory"),
    ],
)
def test_empty_path_is_refused(tmp_path: Path, make: Callable[[Path], None], problem: str) -> None:
    make(tmp_path / "data")
    with pytest.raises(DataError, match=problem):
        inspect_dataset.inspect("mnist", tmp_path / "data")


@pytest.mark.parametrize("closed", ["", "data", f"data/{IMAGES}.gz"])
def test_unreadable_path_is_named(ordinary_user: None, tmp_path: Path, closed: str) -> None:
    samples.mnist(tmp_path / "data", {"t10k": 1200})
    (tmp_path / closed).chmod(0)
    with pytest.raises(DataError, match=r"Permission denied$") as raised:
        inspect_dataset.inspect("mnist", tmp_path / "data")
    assert str(tmp_path / (closed or "data")) in str(raised.value)
    (tmp_path / closed).chmod(0o700)


@pytest.fixture
def ordinary_user(tmp_path: Path) -> Iterator[None]:
    """Run a command as a user other than root, because root may read everything."""
    if os.geteuid():
        yield
        return
    at, above = tmp_path, [path for path in tmp_path.parents if path.is_relative_to(tempfile.gettempdir())]
    modes = {path: path.stat().st_mode for path in above}
    for path in above:
        path.chmod(path.stat().st_mode | 0o011)
    os.chown(at, OTHER_USER, OTHER_USER)
    os.seteuid(OTHER_USER)
    yield
    os.seteuid(0)
    for path, mode in modes.items():
        path.chmod(mode)


def inspect_as_json(directory: Path) -> dict[str, object]:
    """Return the program's answer as the control side reads it."""
    command = [sys.executable, "-m", "orchestrator.trainer.data.inspect_dataset", "mnist", str(directory)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer: dict[str, object] = json.loads(output)
    return answer


def test_program_prints_the_data_set_as_json(tmp_path: Path) -> None:
    samples.mnist(tmp_path, {"train": 2, "t10k": 1})
    assert DatasetFiles(**inspect_as_json(tmp_path)) == inspect_dataset.inspect("mnist", tmp_path)  # type: ignore[arg-type]


def test_program_prints_the_error_as_json(tmp_path: Path) -> None:
    assert inspect_as_json(tmp_path) == {"error": f"{tmp_path}: empty", "damaged": False}
