"""Data sets small enough to be read as a whole: samples and labels of both splits, as arrays."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data import cifar10, mnist, sdss
from orchestrator.trainer.data.inspection import DataError

DISTINCT = 512  # synthetic images: each rank holds all of them in memory, whatever the number of ranks
# uint8 images (n, h, w, c) or float32 rows (n, 1, 1, features); int64 labels (n)
Arrays = tuple[np.ndarray, np.ndarray]


def read(config: TrainConfig) -> tuple[Arrays, Arrays]:
    """Read the training samples and the test samples that ``config`` names, of the test no more than it evaluates.

    Raises:
        DataError: They are missing or incomplete.
    """
    train, (samples, labels) = READERS[config.dataset](config)
    return train, (samples[: config.test_samples], labels[: config.test_samples])


def _synthetic(config: TrainConfig) -> tuple[Arrays, Arrays]:
    """Generate noise with labels that cannot be learnt, to measure speed only. Many samples share an image."""
    random = np.random.default_rng(config.seed)
    shape = (min(DISTINCT, config.synthetic_images), config.image_size, config.image_size, config.channels)
    images = random.integers(0, 256, shape, np.uint8)
    labels = random.integers(0, config.classes, config.synthetic_images, np.int64)
    held_out = max(1, config.synthetic_images // 10)
    return (images, labels), (images, labels[:held_out])


def _mnist(config: TrainConfig) -> tuple[Arrays, Arrays]:
    directory = Path(config.data or "")
    test = _read_idx(directory, "t10k")
    if mnist.files(directory, "train"):
        return _read_idx(directory, "train"), test
    held_out = mnist.HELD_OUT
    return (test[0][:-held_out], test[1][:-held_out]), (test[0][-held_out:], test[1][-held_out:])


def _read_idx(directory: Path, split: str) -> Arrays:
    files = mnist.files(directory, split)
    if files is None:
        raise DataError(f"{directory}: {split}-{mnist.KINDS[0]}.gz and its labels are missing")
    shape, images = mnist.read_idx(files[0], mnist.IDX_IMAGES)
    _, labels = mnist.read_idx(files[1], mnist.IDX_LABELS)
    return np.frombuffer(images, np.uint8).reshape([*shape, 1]), np.frombuffer(labels, np.uint8).astype(np.int64)


def _cifar10(config: TrainConfig) -> tuple[Arrays, Arrays]:
    members = sorted(cifar10.members(Path(config.data or "")))
    train, test = (_read_records([c for n, c in members if n.startswith(split)]) for split in ("data", "test"))
    return train, test


def _read_records(contents: list[bytes]) -> Arrays:
    records = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, cifar10.RECORD)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.int64)


def _sdss(config: TrainConfig) -> tuple[Arrays, Arrays]:
    """Standardise features to mean 0 and deviation 1 over the training rows, without using held-out rows."""
    train, test = sdss.read(Path(config.data or ""))
    mean, scale = mean_and_scale(train)
    return _standardised(train, mean, scale), _standardised(test, mean, scale)


def mean_and_scale(rows: list[sdss.Row]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and scale of each feature, float64 (features)."""
    values = np.array([features for features, _ in rows])
    deviation = values.std(axis=0)
    return values.mean(axis=0), np.where(deviation > 0, deviation, 1.0)


def _standardised(rows: list[sdss.Row], mean: np.ndarray, scale: np.ndarray) -> Arrays:
    features = (np.array([features for features, _ in rows]) - mean) / scale
    return features.astype(np.float32)[:, None, None, :], np.array([label for _, label in rows], np.int64)


READERS: dict[str, Callable[[TrainConfig], tuple[Arrays, Arrays]]] = {
    "synthetic": _synthetic,
    "mnist": _mnist,
    "fashion_mnist": _mnist,
    "cifar10": _cifar10,
    "sdss": _sdss,
}
