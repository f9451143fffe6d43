"""Data sets as they are published: what a directory holds, and whether it is whole.

Run as ``python -m orchestrator.trainer.formats DATASET DIRECTORY``: prints a JSON object, either
``{"files": [...], "train": n, "test": n, "note": "..."}`` with paths relative to the directory, or
``{"error": "..."}``. Only the standard library: the control side runs it before it sends anything.

Sources: http://yann.lecun.com/exdb/mnist (idx), https://www.cs.toronto.edu/~kriz/cifar.html (binary version),
https://image-net.org/challenges/LSVRC/2012 (class folders).
"""

import gzip
import io
import json
import struct
import sys
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

IDX_IMAGES, IDX_LABELS = 0x803, 0x801
CIFAR_RECORD = 1 + 3 * 32 * 32
MNIST_HELD_OUT = 1000  # of a directory that has only the published test set of 10 000
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
JPEG_SUFFIXES = {".jpeg", ".jpg"}
READ_ALL_BELOW = 10_000  # images: every file is opened; above, the first of every class


class DataError(Exception):
    """A directory that does not hold the data set; the message says what is wrong and what was expected."""


@dataclass(frozen=True)
class Found:
    """A data set in a directory: the files it consists of, relative to it, and its number of images."""

    files: list[str]
    train: int
    test: int
    note: str = ""


def inspect(dataset: str, directory: Path) -> Found:
    """What ``directory`` holds of ``dataset``. Raises DataError where it is missing, empty, truncated or another."""
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory")
    if not any(directory.iterdir()):
        raise DataError(f"{directory}: empty")
    return {"mnist": _mnist, "cifar10": _cifar10, "imagenet": _imagenet}[dataset](directory)


def mnist_files(directory: Path, split: str) -> "tuple[Path, Path] | None":
    """The images and labels of ``split`` ("train" or "t10k"), with or without .gz; None where either is missing."""
    pair = []
    for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        names = (f"{split}-{kind}.gz", f"{split}-{kind}", f"{split}-{kind}".replace("-idx", ".idx"))
        pair += [directory / name for name in names if (directory / name).is_file()][:1]
    return (pair[0], pair[1]) if len(pair) == 2 else None


def read_idx(path: Path, magic: int) -> "tuple[list[int], bytes]":
    """Dimensions and bytes of an idx file. Raises DataError where it is truncated or has another magic number."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path}: truncated or not gzip ({error})") from None
    if len(content) < 8 or struct.unpack(">I", content[:4])[0] != magic:
        raise DataError(f"{path}: not an idx file of MNIST (magic number {content[:4].hex()}, expected {magic:08x})")
    start = 4 + 4 * (magic & 0xFF)
    shape = list(struct.unpack(f">{magic & 0xFF}I", content[4:start]))
    size = shape[0] * (shape[1] * shape[2] if len(shape) == 3 else 1)
    if len(content) - start != size:
        raise DataError(f"{path}: truncated: {len(content) - start} bytes of data, its header says {size}")
    return shape, content[start:]


def _mnist(directory: Path) -> Found:
    counts, files = {}, []
    for split in ("train", "t10k"):
        pair = mnist_files(directory, split)
        if pair:
            (images, rows, columns), _ = read_idx(pair[0], IDX_IMAGES)
            labels = read_idx(pair[1], IDX_LABELS)[0][0]
            if (rows, columns) != (28, 28) or labels != images:
                raise DataError(f"{pair[0]}: {images} images of {rows}x{columns} and {labels} labels, expected 28x28")
            counts[split] = images
            files += [path.name for path in pair]
    if "t10k" not in counts:
        raise DataError(f"{directory}: no MNIST here: t10k-images-idx3-ubyte.gz and its labels are missing")
    if "train" in counts:
        return Found(files, counts["train"], counts["t10k"])
    note = f"only the test set is here: its last {MNIST_HELD_OUT} images are held out, the others are trained on"
    return Found(files, counts["t10k"] - MNIST_HELD_OUT, MNIST_HELD_OUT, note)


def cifar10_members(directory: Path) -> "Iterator[tuple[str, bytes]]":
    """Names and contents of the .bin files of CIFAR-10, out of its archive or of the directory it unpacks to."""
    archives = sorted(directory.glob("cifar-10-binary*.tar.gz"))
    if not archives:
        folder = directory / "cifar-10-batches-bin"
        for path in sorted((folder if folder.is_dir() else directory).glob("*.bin")):
            yield path.name, path.read_bytes()
        return
    try:
        with tarfile.open(archives[0], "r:gz") as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file and member.name.endswith(".bin"):
                    yield Path(member.name).name, file.read()
    except (EOFError, tarfile.TarError, OSError, zlib.error) as error:
        raise DataError(f"{archives[0]}: truncated or not a tar.gz ({error})") from None


def _cifar10(directory: Path) -> Found:
    counts = {"data": 0, "test": 0}
    for name, content in cifar10_members(directory):
        labels = content[::CIFAR_RECORD]
        if len(content) % CIFAR_RECORD or not labels or max(labels) > 9:
            raise DataError(f"{directory}: {name} is truncated or not CIFAR-10 (records of {CIFAR_RECORD} bytes)")
        if name.split("_")[0] not in counts:
            raise DataError(f"{directory}: {name} is not a file of CIFAR-10")
        counts[name.split("_")[0]] += len(labels)
    if not (counts["data"] and counts["test"]):
        raise DataError(f"{directory}: no CIFAR-10 here: cifar-10-binary.tar.gz or data_batch_*.bin and test_batch.bin")
    patterns = ("cifar-10-binary*.tar.gz", "cifar-10-batches-bin/*.bin", "*.bin")
    files = next(found for found in (sorted(directory.glob(pattern)) for pattern in patterns) if found)
    files = files[:1] if files[0].suffix == ".gz" else files
    return Found([str(path.relative_to(directory)) for path in files], counts["data"], counts["test"])


def imagenet_images(directory: Path) -> "tuple[list[str], list[tuple[str, int]], list[tuple[str, int]]]":
    """Class names, then (path relative to ``directory``, label) of the images in train/ and in val/."""
    classes = sorted(entry.name for entry in (directory / "train").iterdir() if entry.is_dir())
    labels = {name: number for number, name in enumerate(classes)}
    splits = []
    for split in ("train", "val"):
        paths = (path for path in sorted((directory / split).glob("*/*")) if path.suffix.lower() in JPEG_SUFFIXES)
        splits.append([(str(path.relative_to(directory)), labels[path.parent.name]) for path in paths])
    return classes, splits[0], splits[1]


def _imagenet(directory: Path) -> Found:
    for split in ("train", "val"):
        if not (directory / split).is_dir():
            raise DataError(
                f"{directory}: no ImageNet here: folder {split}/ with a folder of JPEGs per class is missing"
            )
    names = {
        split: {entry.name for entry in (directory / split).iterdir() if entry.is_dir()} for split in ("train", "val")
    }
    strangers = sorted(names["val"] - names["train"])
    if strangers:
        raise DataError(f"{directory}: val/ has classes that train/ lacks: {', '.join(strangers[:3])}")
    _, train, test = imagenet_images(directory)
    if not train or not test:
        raise DataError(f"{directory}: no JPEG in {'val' if train else 'train'}/*/")
    for path in _to_open([path for path, _ in train + test]):
        _check_jpeg(directory / path)
    return Found([path for path, _ in train + test], len(train), len(test))


def _to_open(paths: list[str]) -> list[str]:
    return paths if len(paths) < READ_ALL_BELOW else list({str(Path(path).parent): path for path in paths}.values())


def _check_jpeg(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(2)
        file.seek(-min(path.stat().st_size, 64), io.SEEK_END)
        end = file.read()
    if start != JPEG_START:
        raise DataError(f"{path}: not a JPEG")
    if JPEG_END not in end:
        raise DataError(f"{path}: truncated JPEG")


def main(dataset: str, directory: Path) -> None:
    try:
        print(json.dumps(asdict(inspect(dataset, directory))))
    except DataError as error:
        print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
