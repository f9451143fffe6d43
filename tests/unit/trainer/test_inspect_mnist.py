"""MNIST as published: idx files, gzipped or not."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.trainer.data import inspect_dataset, mnist
from orchestrator.trainer.data.inspection import DataError
from tests import samples

IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def test_both_splits_are_counted(tmp_path: Path) -> None:
    samples.mnist(tmp_path, {"train": 7, "t10k": 3})
    dataset = inspect_dataset.inspect("mnist", tmp_path)
    assert (dataset.train, dataset.test, dataset.note, len(dataset.files)) == (7, 3, "", 4)


def test_test_set_alone_has_a_thousand_images_held_out(tmp_path: Path) -> None:
    samples.mnist(tmp_path, {"t10k": 1200})
    dataset = inspect_dataset.inspect("mnist", tmp_path)
    assert (dataset.train, dataset.test, dataset.files) == (200, 1000, [f"{IMAGES}.gz", f"{LABELS}.gz"])
    assert "its last 1000 images are used for the test" in dataset.note


@pytest.mark.parametrize("spelling", [IMAGES, IMAGES.replace("-idx", ".idx")])
def test_unpacked_files_are_accepted_in_either_spelling(tmp_path: Path, spelling: str) -> None:
    (tmp_path / spelling).write_bytes(samples.images_idx(1100))
    (tmp_path / spelling.replace("images", "labels").replace("3", "1")).write_bytes(samples.labels_idx(1100))
    assert inspect_dataset.inspect("mnist", tmp_path).train == 100


def test_other_files_in_the_directory_are_ignored(tmp_path: Path) -> None:
    samples.mnist(tmp_path, {"train": 2, "t10k": 2})
    (tmp_path / "README").touch()
    assert "README" not in inspect_dataset.inspect("mnist", tmp_path).files


def test_fashion_mnist_has_the_same_files_and_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "README").touch()
    with pytest.raises(DataError, match="no Fashion-MNIST here: t10k-images-idx3-ubyte"):
        inspect_dataset.inspect("fashion_mnist", tmp_path)
    samples.mnist(tmp_path, {"train": 7, "t10k": 3})
    assert inspect_dataset.inspect("fashion_mnist", tmp_path) == inspect_dataset.inspect("mnist", tmp_path)


def test_pixels_and_labels_are_read_unchanged(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(samples.images_idx(3))
    (tmp_path / "l").write_bytes(samples.labels_idx(12))
    shape, pixels = mnist.read_idx(tmp_path / "i", mnist.IDX_IMAGES)
    assert (shape, pixels) == ([3, 28, 28], bytes(784) + b"\x01" * 784 + b"\x02" * 784)
    assert mnist.read_idx(tmp_path / "l", mnist.IDX_LABELS) == ([12], bytes([*range(10), 0, 1]))


def changed_images(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Return a function that changes the unpacked content of the image file."""

    def damage(directory: Path) -> None:
        path = directory / f"{IMAGES}.gz"
        path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))

    return damage


def cut_archive(directory: Path) -> None:
    path = directory / f"{IMAGES}.gz"
    path.write_bytes(path.read_bytes()[:-9])


def not_an_archive(directory: Path) -> None:
    (directory / f"{IMAGES}.gz").write_bytes(b"<html>not found</html>")


def label_of_another_data_set(directory: Path) -> None:
    """EMNIST has letters too."""
    (directory / f"{LABELS}.gz").write_bytes(gzip.compress(samples.labels_idx(1200)[:-1] + bytes([25])))


def only_training_set(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()
    samples.mnist(directory, {"train": 3})


def training_images_alone(directory: Path) -> None:
    """Users who provide the training images do not want to train on the test set."""
    samples.mnist(directory, {"train": 3})
    (directory / "train-labels-idx1-ubyte.gz").unlink()


def corrupt_archive(directory: Path) -> None:
    path = directory / f"{IMAGES}.gz"
    content = bytearray(path.read_bytes())
    content[20] ^= 0xFF
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (cut_archive, "truncated or not gzip"),
        (not_an_archive, "truncated or not gzip"),
        (corrupt_archive, "truncated or not gzip"),
        (changed_images(lambda content: content[:-1]), "truncated: 940799 bytes of data, its header says 940800"),
        (changed_images(lambda content: b""), "not an idx file of images"),
        (changed_images(lambda content: content[:10]), "truncated"),
        (changed_images(lambda content: samples.labels_idx(1200)), "magic number 00000801, expected 00000803"),
        (changed_images(lambda content: samples.images_idx(1200, size=32)), "1200 images of 32x32"),
        (changed_images(lambda content: samples.images_idx(1199)), "1199 images of 28x28 and 1200 labels"),
        (changed_images(lambda content: samples.images_idx(0)), "0 images of 28x28 and 1200 labels"),
        (lambda directory: samples.mnist(directory, {"t10k": 0}), "images-idx3-ubyte.gz: holds no image"),
        (lambda directory: samples.mnist(directory, {"t10k": 1000}), "with 1000 images, 1000 of them for the test"),
        (label_of_another_data_set, f"{LABELS}.gz: holds the label 25, expected 0 to 9"),
        (lambda directory: (directory / f"{LABELS}.gz").unlink(), f"{IMAGES}.gz: {LABELS}.gz is missing"),
        (lambda directory: (directory / f"{IMAGES}.gz").unlink(), f"{LABELS}.gz: {IMAGES}.gz is missing"),
        (only_training_set, "no MNIST here: t10k-images-idx3-ubyte.gz and its labels are missing"),
        (training_images_alone, "train-images-idx3-ubyte.gz: train-labels-idx1-ubyte.gz is missing"),
    ],
)
def test_incomplete_data_set_is_refused(tmp_path: Path, damage: Callable[[Path], object], problem: str) -> None:
    damage(samples.mnist(tmp_path, {"t10k": 1200}))
    with pytest.raises(DataError, match=problem):
        inspect_dataset.inspect("mnist", tmp_path)
