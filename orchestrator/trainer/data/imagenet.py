"""ImageNet's class folders (https://image-net.org/challenges/LSVRC/2012): train/ and val/, a folder per class.

TFRecord shards of it are handled by orchestrator.trainer.data.tfrecord_format.
"""

import os
from collections import Counter
from pathlib import Path

from orchestrator.trainer.data import image_files, tfrecord_format
from orchestrator.trainer.data.inspection import Damaged, DataError, DatasetFiles

MAX_CLASSES = 1000  # that the networks are built for
SUFFIXES = (".jpeg", ".jpg", ".png")
OTHER_SUFFIXES = (".jpe", ".jfif", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif")
READ_ALL_BELOW = 10_000  # images: below, every file is opened; else one of every class
Samples = list[tuple[str, int]]  # (path relative to the data set's directory, label)
Entries = list[os.DirEntry[str]]


def images(directory: Path) -> tuple[list[str], Samples, Samples]:
    """Return class names, then the images in train/ and in val/."""
    classes, train, test, _ = _scan(directory)
    return classes, train, test


def _scan(directory: Path) -> tuple[list[str], Samples, Samples, Entries]:
    """Return what :func:`images` does, and the other entries of the class folders."""
    classes = _classes(directory / "train")
    labels = {name: number for number, name in enumerate(classes)}
    (train, other), (test, more) = (_samples(directory, split, labels) for split in ("train", "val"))
    return classes, train, test, other + more


def _classes(folder: Path) -> list[str]:
    return [entry.name for entry in _entries(folder) if entry.is_dir()]


def _entries(folder: Path) -> Entries:
    """Return what is in a folder by name, without hidden entries: Jupyter, macOS and file managers put theirs there."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _samples(directory: Path, split: str, labels: dict[str, int]) -> tuple[Samples, Entries]:
    """Return the images of a split, by class and name, and the other entries of its class folders."""
    samples, others = Samples(), Entries()
    for name in _classes(directory / split):
        for entry in _entries(directory / split / name):
            if not entry.name.lower().endswith(SUFFIXES):
                others.append(entry)
            elif entry.is_file():
                samples.append((f"{split}/{name}/{entry.name}", labels[name]))
            else:
                raise DataError(f"{entry.path}: not a regular file, expected an image")
    return samples, others


def inspect(directory: Path) -> DatasetFiles:
    """Inspect the class folders or shards in ``directory``.

    Raises:
        DataError: It is not ImageNet.
        Damaged: It is ImageNet, but some images cannot be read.
    """
    if any(tfrecord_format.names(directory).values()):
        return tfrecord_format.inspect(directory)
    for split in ("train", "val"):
        if not (directory / split).is_dir():
            folder = f"folder {split}/ with a folder of images per class"
            raise DataError(f"{directory}: no ImageNet here: {folder} is missing, and so are shards {split}-00000-of-…")
    _check_classes(directory)
    classes, train, test, others = _scan(directory)
    notes = _ignored(others, classes, train)
    _check_images(directory, classes, train, test, notes)
    paths = [path for path, _ in train + test]
    faults = list(filter(None, (image_files.fault(directory / path) for path in _to_open(paths))))
    trained = len({label for _, label in train})
    if faults:
        more = f", and {len(faults) - 1} more that cannot be read" if len(faults) > 1 else ""
        note = "; ".join([f"unreadable images will be skipped: {faults[0]}{more}", *notes])
        raise Damaged(f"{faults[0]}{more}", DatasetFiles(paths, len(train), len(test), note, classes=trained))
    return DatasetFiles(paths, len(train), len(test), "; ".join(notes), classes=trained)


def _check_classes(directory: Path) -> None:
    train, test = (_classes(directory / split) for split in ("train", "val"))
    unknown_classes = sorted(set(test) - set(train))
    if unknown_classes:
        raise DataError(f"{directory}: val/ has classes that train/ lacks: {', '.join(unknown_classes[:3])}")
    if len(train) > MAX_CLASSES:
        raise DataError(f"{directory}: train/ has {len(train)} classes, at most {MAX_CLASSES} can be trained on")


def _check_images(directory: Path, classes: list[str], train: Samples, test: Samples, notes: list[str]) -> None:
    if not train or not test:
        raise DataError("; ".join([f"{directory}: no image in {'val' if train else 'train'}/*/", *notes]))
    untrained = sorted({label for _, label in test} - {label for _, label in train})
    if untrained:
        name, more = classes[untrained[0]], f", and {len(untrained) - 1} more such classes" if untrained[1:] else ""
        raise DataError(f"{directory}: train/{name} has no image, expected some as in val/{name}{more}")


def _ignored(others: Entries, classes: list[str], train: Samples) -> list[str]:
    """Return notes on what is not read: images of other formats, folders in class folders, and empty classes."""
    suffixes = Counter(f".{entry.name.rpartition('.')[2].lower()}" for entry in others)
    nested, notes = [entry.path for entry in others if entry.is_dir()], list[str]()
    empty = [classes[number] for number in sorted({*range(len(classes))} - {label for _, label in train})]
    if counts := ", ".join(f"{suffixes[suffix]} {suffix}" for suffix in OTHER_SUFFIXES if suffixes[suffix]):
        notes.append(f"{counts} files are ignored: only .jpeg, .jpg and .png files are read")
    if nested:
        notes.append(f"folders within class folders are ignored: {_first(nested)}")
    if empty:
        notes.append(f"folders of train/ without an image are no classes: {_first(empty)}")
    return notes


def _first(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if names[1:] else names[0]


def require_classes(directory: Path, found: int, classes: int) -> None:
    """Raise DataError if the data set has more classes, ``found``, than the network, which has ``classes``."""
    if found > classes:
        problem = f"{directory}: {found} classes, at most {classes} expected, as the recipe sets"
        raise DataError(f"{problem}: set classes: {found} in the file of --recipe")


def _to_open(paths: list[str]) -> list[str]:
    return paths if len(paths) < READ_ALL_BELOW else list({str(Path(path).parent): path for path in paths}.values())
