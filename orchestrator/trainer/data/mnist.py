"""MNIST as published (https://yann.lecun.com/exdb/mnist): idx files, gzipped or not.

Fashion-MNIST (https://github.com/zalandoresearch/fashion-mnist) has the same form and the same file names.
"""

import math
import struct
from pathlib import Path

from orchestrator.trainer.data import bounded_reading
from orchestrator.trainer.data.inspection import DataError, DatasetFiles

IDX_IMAGES, IDX_LABELS = 0x803, 0x801
KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
MAX_BYTES = 512 << 20  # of pixels: eleven times the published training set
HELD_OUT = 1000  # images of a directory with only the published test set of 10 000


def inspect(directory: Path, name: str = "MNIST") -> DatasetFiles:
    train, test = (files(directory, split) for split in ("train", "t10k"))
    if test is None:
        raise DataError(f"{directory}: no {name} here: t10k-{KINDS[0]}.gz and its labels are missing")
    names = [path.name for path in (*(train or ()), *test)]
    if train:
        return DatasetFiles(names, _count(train), _count(test))
    count = _count(test)
    if count <= HELD_OUT:
        raise DataError(
            f"{directory}: has only the test set, with {count} images, {HELD_OUT} of them for the test: "
            f"add train-{KINDS[0]}.gz and its labels"
        )
    note = f"only the test set is here: its last {HELD_OUT} images are used for the test, the others for training"
    return DatasetFiles(names, count - HELD_OUT, HELD_OUT, note)


def files(directory: Path, split: str) -> "tuple[Path, Path] | None":
    """Return the files of images and labels of ``split`` ("train" or "t10k"), with or without .gz; None without both.

    Raises:
        DataError: One is there without the other: training on less data than provided would be unexpected.
    """
    images, labels = (_file(directory, f"{split}-{kind}") for kind in KINDS)
    if images and labels:
        return images, labels
    if images or labels:
        missing = KINDS[1] if images else KINDS[0]
        raise DataError(f"{images or labels}: {split}-{missing}.gz is missing")
    return None


def _file(directory: Path, name: str) -> "Path | None":
    spellings = (f"{name}.gz", name, name.replace("-idx", ".idx"))
    paths = (directory / spelling for spelling in spellings)
    return next((path for path in paths if path.exists() or path.is_symlink()), None)


def _count(pair: tuple[Path, Path]) -> int:
    """Return the number of images. DataError if they or their labels are not as published."""
    (images, rows, columns), _ = read_idx(pair[0], IDX_IMAGES)
    (count,), labels = read_idx(pair[1], IDX_LABELS)
    if (rows, columns) != (28, 28) or count != images:
        raise DataError(f"{pair[0]}: {images} images of {rows}x{columns} and {count} labels, expected 28x28")
    if not images:
        raise DataError(f"{pair[0]}: holds no image")
    if max(labels) > 9:
        raise DataError(f"{pair[1]}: holds the label {max(labels)}, expected 0 to 9")
    return images


def read_idx(path: Path, magic: int) -> "tuple[list[int], bytes]":
    """Return dimensions and bytes of an idx file.

    Raises:
        DataError: The file is incomplete, or too large for one of images.
    """
    with bounded_reading.open_file(path) as file:
        source = bounded_reading.GzipReader(file, path) if path.suffix == ".gz" else file
        shape = _shape(path, magic, source.read(4 + 4 * (magic & 0xFF)))
        size = math.prod(shape)
        if size > MAX_BYTES:
            raise DataError(f"{path}: its header says {size:,} bytes of data, expected at most {MAX_BYTES:,}")
        content = source.read(size + 1)
    if len(content) < size:
        raise DataError(f"{path}: truncated: {len(content)} bytes of data, its header says {size}")
    if len(content) > size:
        raise DataError(f"{path}: {len(content)} bytes or more, its header says {size}")
    return shape, content


def _shape(path: Path, magic: int, header: bytes) -> list[int]:
    if header[:4] != struct.pack(">I", magic):
        kind = "images" if magic == IDX_IMAGES else "labels"
        raise DataError(f"{path}: not an idx file of {kind} (magic number {header[:4].hex()}, expected {magic:08x})")
    dimensions = magic & 0xFF
    if len(header) < 4 + 4 * dimensions:
        raise DataError(f"{path}: truncated: {len(header)} bytes, its header alone has {4 + 4 * dimensions}")
    return list(struct.unpack(f">{dimensions}I", header[4:]))
