"""Tiny data sets in their published formats, and a TrainConfig. Imports the worker side only, like the image."""

import gzip
import io
import struct
import tarfile
from pathlib import Path
from typing import Any

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data import sdss
from orchestrator.trainer.data.image_files import JPEG_END, JPEG_START
from orchestrator.trainer.data.mnist import IDX_IMAGES, IDX_LABELS

MNIST = Path(__file__).parent / "data" / "mnist"
JPEG = JPEG_START + b"not decodable, but whole" + JPEG_END
# Secrets that tests put in usual places, and that an exported run must not contain.
SECRETS = {
    "configuration": "of-jupyter-Pa55",
    "environment": "of-cloud-Pa55",
    "variable": "of-the-ranks-Pa55",
    "key": "MIIEvAIBADANBgkqhkiG9w0BAQEFAASC",
    "credentials": "of-clouds-yaml-Pa55",
    "index": "of-the-index-Pa55",
}


def train_config(**changes: Any) -> TrainConfig:
    values: dict[str, Any] = {
        "run": "resnet20-mnist-1",
        "model": "resnet20",
        "dataset": "mnist",
        "data": None,
        "image_size": 28,
        "channels": 1,
        "classes": 10,
        "augment": False,
        "epochs": 2,
        "batch_size": 32,
        "learning_rate": 0.1,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "warmup_epochs": 0,
        "schedule": "step",
        "milestones": [0.5],
        "seed": 1,
        "precision": "float32",
        "threads": 1,
    }
    return TrainConfig(**{**values, **changes})


def images_idx(count: int, size: int = 28, magic: int = IDX_IMAGES) -> bytes:
    """Return an idx file of ``count`` images; every pixel of image i is i."""
    pixels = b"".join(bytes([number % 256]) * (size * size) for number in range(count))
    return struct.pack(">IIII", magic, count, size, size) + pixels


def labels_idx(count: int) -> bytes:
    """Return an idx file of ``count`` labels; label i is i modulo 10."""
    return struct.pack(">II", IDX_LABELS, count) + bytes(number % 10 for number in range(count))


def mnist(directory: Path, splits: dict[str, int]) -> Path:
    """Write gzipped idx files with the number of images per split ("train", "t10k")."""
    directory.mkdir(parents=True, exist_ok=True)
    for split, count in splits.items():
        (directory / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images_idx(count)))
        (directory / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels_idx(count)))
    return directory


def cifar_records(count: int, first: int = 0) -> bytes:
    """Return ``count`` records of CIFAR-10: label i modulo 10, then planes red i, green i + 1, blue i + 2."""
    return b"".join(
        bytes([number % 10]) + b"".join(bytes([(number + plane) % 256]) * 1024 for plane in range(3))
        for number in range(first, first + count)
    )


def cifar_archive(directory: Path, members: dict[str, bytes]) -> Path:
    """Write the published archive with these files in its folder."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def cifar(directory: Path, train: int = 3, test: int = 2) -> Path:
    cifar_archive(
        directory, {"data_batch_1.bin": cifar_records(train), "test_batch.bin": cifar_records(test, first=100)}
    )
    return directory


def sky(number: int) -> dict[str, str]:
    """Return row ``number`` of a SkyServer table: magnitudes number, number + 1 ..., class number modulo 3."""
    magnitudes = {band: str(number + place) for place, band in enumerate("ugriz")}
    kind = sdss.CLASSES[number % 3]
    return {"objid": "1.24E+18", "ra": "183.5", **magnitudes, "run": "752", "redshift": f"{number}E-3", "class": kind}


def table(path: Path, rows: list[dict[str, str]], above: str = "") -> Path:
    """Write a CSV with these rows and the first row's keys as header; return its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    path.write_text(above + "\n".join(lines) + "\n")
    return path.parent


def imagenet(directory: Path, images: dict[str, bytes]) -> Path:
    """Write class folders as published: ``images`` maps "train/n01/a.JPEG" to the file's content."""
    for name, content in images.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory
