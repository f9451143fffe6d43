"""TFRecord shards of ImageNet in their usual form, train-00000-of-01024 and so on. Standard library only.

A TFRecord file is a sequence of records, each framed by its length (uint64), the masked CRC-32C of these eight bytes,
and after the content the masked CRC-32C of the content, all little-endian
(https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).
"""

import os
import re
import struct
from pathlib import Path

from orchestrator.trainer.data import bounded_reading
from orchestrator.trainer.data.inspection import DataError, DatasetFiles

NAME = re.compile(r"(train|validation|val)-(\d{5})-of-(\d{5})(\.tfrecords?)?")
SPLITS = {"train": "train", "validation": "val", "val": "val"}
HEADER = struct.Struct("<QI")
FRAME = HEADER.size + 4  # bytes around a record's content
FIELDS = (b"image/encoded", b"image/class/label")
MAX_RECORD, MAX_RECORDS = 256 << 20, 2_000_000  # bytes; records of a shard
CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C (RFC 3720, section 12.1), bits in reversed order
MASK_DELTA = 0xA282EAD8


def names(directory: Path) -> dict[str, list[str]]:
    """Return the names of the shards in ``directory`` by split, "train" and "val".

    Raises:
        DataError: A shard is missing, or its number is beyond the number of shards.
    """
    names: dict[str, list[str]] = {"train": [], "val": []}
    for match in sorted(filter(None, (NAME.fullmatch(path.name) for path in directory.iterdir())), key=lambda m: m[0]):
        names[SPLITS[match[1]]].append(match[0])
    for shards in names.values():
        _require_all(directory, shards)
    return names


def name(split: str, number: int, count: int) -> str:
    """Return the file name of a shard.

    Args:
        split: "train" or "val".
        number: Number of the shard, from 0.
        count: Number of shards of the split.

    Returns:
        A name such as train-00000-of-01024.
    """
    return f"{split}-{number:05}-of-{count:05}"


def _require_all(directory: Path, shards: list[str]) -> None:
    parts = [match.groups() for match in map(NAME.fullmatch, shards) if match]
    if len({(split, count, suffix) for split, _, count, suffix in parts}) > 1:
        raise DataError(f"{directory}: shards of several data sets: {shards[0]} and {shards[-1]}")
    present = {int(number) for _, number, _, _ in parts}
    missing = sorted(set(range(int(parts[0][2]))) - present) if parts else []
    if missing:
        first_missing = f"{name(parts[0][0], missing[0], int(parts[0][2]))}{parts[0][3] or ''}"
        raise DataError(f"{directory}: {first_missing} is missing, and {len(missing) - 1} more shards")
    if parts and max(present) >= int(parts[0][2]):
        problem = f"number {max(present)} is not below the number of shards, {int(parts[0][2])}"
        raise DataError(f"{directory}: {shards[-1]}: {problem}: remove or rename this file")


def inspect(directory: Path) -> DatasetFiles:
    """Count the records. Every record's frame is checked, and the fields of the first record in each shard.

    Raises:
        DataError: Shards are missing, damaged or empty.
    """
    shard_names = names(directory)
    for split, shards in shard_names.items():
        if not shards:
            raise DataError(
                f"{directory}: shards of {'val' if split == 'train' else 'train'} alone: {split}-* is missing"
            )
    counts = {split: sum(_count(directory / shard) for shard in shards) for split, shards in shard_names.items()}
    for split, count in counts.items():
        if not count:
            raise DataError(f"{directory}: the {split} shards hold no record")
    return DatasetFiles([*shard_names["train"], *shard_names["val"]], counts["train"], counts["val"], shards=True)


def _count(path: Path) -> int:
    record_lengths = lengths(path)
    with bounded_reading.open_file(path) as file:
        first = file.read(record_lengths[0] + FRAME) if record_lengths else b""
    missing_fields = [field.decode() for field in FIELDS if field not in first] if record_lengths else []
    if missing_fields:
        raise DataError(f"{path}: its records have no {missing_fields[0]}")
    return len(record_lengths)


def lengths(path: Path) -> list[int]:
    """Return the bytes of the content of every record.

    Raises:
        DataError: A frame is damaged, or the file ends inside one.
    """
    record_lengths: list[int] = []
    position = 0
    with bounded_reading.open_file(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        while header := os.pread(descriptor, HEADER.size, position):
            if len(header) == HEADER.size:
                length, checksum = HEADER.unpack(header)
                if masked_crc(header[:8]) != checksum:
                    raise DataError(f"{path}: no TFRecord at byte {position}: another format, or damaged")
            if len(header) < HEADER.size or position + length + FRAME > size:
                raise DataError(f"{path}: truncated: it ends inside the record at byte {position}")
            if length > MAX_RECORD or len(record_lengths) == MAX_RECORDS:
                limits = f"expected at most {MAX_RECORDS:,} records of up to {MAX_RECORD:,} bytes"
                raise DataError(f"{path}: the record at byte {position} has {length:,} bytes, {limits}")
            record_lengths.append(length)
            position += length + FRAME
    return record_lengths


def masked_crc(content: bytes) -> int:
    """Return the CRC-32C of ``content``, rotated and shifted as in TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def _crc_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (CASTAGNOLI if byte & 1 else 0)
    return byte


TABLE = [_crc_entry(byte) for byte in range(256)]
