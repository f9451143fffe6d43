"""TFRecord shards of ImageNet, inspected with the standard library only."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.trainer.data import inspect_dataset, tfrecord_format
from orchestrator.trainer.data.inspection import DataError
from tests import samples

RECORD = b"image/encoded ... image/class/label ..."
WHOLE = {"train-00000-of-00002": 3, "train-00001-of-00002": 2, "validation-00000-of-00001": 4}


def framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    checksums = (struct.pack("<I", tfrecord_format.masked_crc(part)) for part in (length, content))
    return length + next(checksums) + content + next(checksums)


def write(directory: Path, counts: dict[str, int], content: bytes = RECORD) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, count in counts.items():
        (directory / name).write_bytes(framed(content) * count)
    return directory


def test_checksum_is_masked_crc_32c() -> None:
    """Values of RFC 3720, appendix B.4, masked by hand."""
    for content, crc in ((bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)):
        rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
        assert tfrecord_format.masked_crc(content) == (rotated + 0xA282EAD8) & 0xFFFFFFFF


def test_records_are_counted_shard_by_shard(tmp_path: Path) -> None:
    dataset = inspect_dataset.inspect("imagenet", write(tmp_path, WHOLE))
    assert (dataset.train, dataset.test, dataset.files, dataset.shards) == (5, 4, list(WHOLE), True)


@pytest.mark.parametrize("name", ["val-00000-of-00001", "val-00000-of-00001.tfrecord"])
def test_names_val_and_tfrecord_are_accepted(tmp_path: Path, name: str) -> None:
    dataset = inspect_dataset.inspect("imagenet", write(tmp_path, {"train-00000-of-00001.tfrecords": 1, name: 2}))
    assert (dataset.train, dataset.test) == (1, 2)


def test_other_files_next_to_shards_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "train-00000-of-00002.json").write_text("{}")
    assert inspect_dataset.inspect("imagenet", tmp_path).files == list(WHOLE)


def test_class_folders_are_no_shards(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, {"train/n/a.jpg": samples.JPEG, "val/n/a.jpg": samples.JPEG})
    assert not inspect_dataset.inspect("imagenet", tmp_path).shards


def test_file_of_many_records_is_read_frame_by_frame(tmp_path: Path) -> None:
    contents = [bytes(size) for size in (0, 1, 5000, 70_000)]
    (tmp_path / "x").write_bytes(b"".join(map(framed, contents)))
    assert tfrecord_format.lengths(tmp_path / "x") == [0, 1, 5000, 70_000]
    (tmp_path / "x").write_bytes(b"")
    assert tfrecord_format.lengths(tmp_path / "x") == []


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda directory: os.truncate(directory / name, size)


def damage(directory: Path) -> None:
    path = directory / "train-00001-of-00002"
    content = bytearray(path.read_bytes())
    content[len(framed(RECORD))] ^= 1  # the length of the second record
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (cut("train-00000-of-00002", 100), "train-00000-of-00002: truncated: it ends inside the record at byte 55"),
        (cut("train-00000-of-00002", 60), "train-00000-of-00002: truncated: it ends inside the record at byte 55"),
        (damage, "train-00001-of-00002: no TFRecord at byte 55: another format, or damaged"),
        (
            lambda directory: (directory / "train-00001-of-00002").unlink(),
            "train-00001-of-00002 is missing, and 0 more",
        ),
        (lambda directory: (directory / "validation-00000-of-00001").unlink(), "shards of train alone: val-"),
        (cut("validation-00000-of-00001", 0), "the val shards hold no record"),
        (lambda directory: write(directory, {"train-00000-of-00001": 1}), "shards of several data sets"),
        (
            lambda directory: write(directory, {"train-00002-of-00002": 1}),
            "train-00002-of-00002: number 2 is not below the number of shards, 2: remove or rename this file",
        ),
        (
            lambda directory: (directory / "validation-00000-of-00001").rename(directory / "val-00000-of-00000"),
            "val-00000-of-00000: number 0 is not below the number of shards, 0: remove or rename this file",
        ),
        (
            lambda directory: write(directory, {"train-00000-of-00002": 1}, b"video"),
            "its records have no image/encoded",
        ),
    ],
)
def test_incomplete_shards_are_refused(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    write(tmp_path, WHOLE)
    make(tmp_path)
    with pytest.raises(DataError, match=problem):
        inspect_dataset.inspect("imagenet", tmp_path)
