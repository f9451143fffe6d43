"""The loader of files from other sources: refusals, their messages, and no endless waits."""

import os
import re
import socket
import time
from pathlib import Path

import pytest
from pydantic import BaseModel

from orchestrator.schema import bounded_files
from orchestrator.schema.bounded_files import Unreadable


class Point(BaseModel):
    x: int
    y: float = 0.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: not JSON"),
        ("{\n\n'", "line 3: not JSON"),
        ('{"a": 1, "b": 2, "a": 3}', "key 'a' occurs twice"),
        ("NaN", "'NaN' is not a finite number"),
        ('{"a": -Infinity}', "'-Infinity' is not a finite number"),
        ("[1e999]", "'1e999' is not a finite number"),
        ("9" * 5000, "has 5,000 digits"),
        ("[" * 66 + "]" * 66, "nested more than 64 levels deep"),
        ("[" * 1_000_000, "nested more than 64 levels deep"),
        ('"\\ud800"', "half a surrogate pair"),
        (b"\xff{}", "line 1: not UTF-8 text (byte 0xff)"),
        (b'{"a":\n"\xe9"}', "line 2: not UTF-8 text (byte 0xe9)"),
    ],
)
def test_damaged_json_is_refused_with_name_and_reason(text: str | bytes, reason: str) -> None:
    with pytest.raises(
        Unreadable, match=re.escape(f"some.json: {reason}" if "has" not in reason else reason)
    ) as caught:
        bounded_files.load_json(text, "some.json")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf[1.5]", "[1.5]", b" [1.5]\n"])
def test_json_is_read_with_or_without_a_byte_order_mark(text: str | bytes) -> None:
    assert bounded_files.load_json(text, "some.json") == [1.5]


def test_model_error_names_keys_and_shortens_values() -> None:
    with pytest.raises(Unreadable) as caught:
        bounded_files.load_model('{"x": "' + "z" * 100_000 + '", "y": []}', Point, "point.json")
    assert re.match(r"point\.json: x: 'zz.*zz': Input should be a valid integer.*; y: \[\]: Input", str(caught.value))
    assert len(str(caught.value)) < 300


def test_model_error_of_another_shape_names_the_whole() -> None:
    with pytest.raises(Unreadable, match=r"point\.json: the whole: 5: Input should be"):
        bounded_files.load_model("5", Point, "point.json")


def test_missing_file_differs_from_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("missing", "dangling"):
        with pytest.raises(FileNotFoundError):
            bounded_files.read_bytes(tmp_path / name)


def test_special_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    began = time.monotonic()
    for path, reason in [
        (tmp_path, "is a directory, not a file"),
        (tmp_path / "pipe", "is a pipe, not a file"),
        (tmp_path / "socket", "No such device or address"),
        (Path("/dev/zero"), "is a device, not a file"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / ("a" * 300), "File name too long"),
    ]:
        with pytest.raises(Unreadable, match=f"{re.escape(str(path))}: {reason}"):
            bounded_files.read_text(path)
    assert time.monotonic() - began < 1


def test_file_above_the_limit_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Unreadable, match="larger than 16,777,216 bytes"):
        bounded_files.read_bytes(tmp_path / "sparse")
    (tmp_path / "exact").write_bytes(b"12345")
    assert bounded_files.read_bytes(tmp_path / "exact", 5) == b"12345"


@pytest.mark.parametrize("value", ["z" * 1_000_000, [["z" * 1000] * 1000] * 1000, {"k" * 999: "v" * 999}, 10**90])
def test_value_is_shown_in_part(value: object) -> None:
    assert len(bounded_files.shown(value)) < 90
