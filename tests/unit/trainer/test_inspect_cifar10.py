"""CIFAR-10 in its binary version: the published archive, or its unpacked directory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.trainer.data import inspect_dataset
from orchestrator.trainer.data.inspection import DataError
from tests import samples


def test_archive_is_one_file_with_both_splits(tmp_path: Path) -> None:
    dataset = inspect_dataset.inspect("cifar10", samples.cifar(tmp_path, train=5, test=2))
    assert (dataset.files, dataset.train, dataset.test) == (["cifar-10-binary.tar.gz"], 5, 2)


@pytest.mark.parametrize("folder", ["", "cifar-10-batches-bin/"])
def test_unpacked_files_are_found_in_both_places(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    for name, count in (("data_batch_1", 3), ("data_batch_2", 3), ("test_batch", 2)):
        (tmp_path / folder / f"{name}.bin").write_bytes(samples.cifar_records(count))
        (tmp_path / folder / f"._{name}.bin").write_bytes(b"of a Finder")
    dataset = inspect_dataset.inspect("cifar10", tmp_path)
    assert (dataset.train, dataset.test) == (6, 2)
    assert dataset.files == [f"{folder}{name}.bin" for name in ("data_batch_1", "data_batch_2", "test_batch")]


def cut_archive(directory: Path) -> None:
    path = samples.cifar_archive(directory, {"data_batch_1.bin": samples.cifar_records(50)})
    path.write_bytes(path.read_bytes()[:-40])


def not_an_archive(directory: Path) -> None:
    (directory / "cifar-10-binary.tar.gz").write_bytes(b"<html>moved</html>")


def holding(**members: bytes) -> Callable[[Path], object]:
    return lambda directory: samples.cifar_archive(directory, {f"{name}.bin": m for name, m in members.items()})


GOOD, CUT = samples.cifar_records(2), samples.cifar_records(2)[:-1]
CIFAR_100 = b"".join(bytes([7, 42]) + bytes(3072) for _ in range(3))  # records with a coarse and a fine label


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (cut_archive, "truncated or not a tar.gz"),
        (not_an_archive, "truncated or not a tar.gz"),
        (
            holding(data_batch_1=CUT, test_batch=GOOD),
            r"data_batch_1.bin is truncated or not CIFAR-10 \(records of 3073",
        ),
        (holding(data_batch_1=CIFAR_100, test_batch=GOOD), "data_batch_1.bin is truncated or not CIFAR-10"),
        (holding(data_batch_1=b"\x0a" + GOOD[1:], test_batch=GOOD), "is truncated or not CIFAR-10"),
        (holding(data_batch_1=b"", test_batch=GOOD), "is truncated or not CIFAR-10"),
        (holding(train=GOOD, test_batch=GOOD), "train.bin is not a file of CIFAR-10"),
        (holding(data_batch_1=GOOD), "no CIFAR-10 here"),
        (holding(test_batch=GOOD), "no CIFAR-10 here"),
        (lambda directory: (directory / "notes.txt").touch(), "no CIFAR-10 here"),
    ],
)
def test_incomplete_data_set_is_refused(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    make(tmp_path)
    with pytest.raises(DataError, match=problem):
        inspect_dataset.inspect("cifar10", tmp_path)


def test_published_archive_of_cifar_100_is_refused(tmp_path: Path) -> None:
    samples.cifar_archive(tmp_path, {"train.bin": CIFAR_100, "test.bin": CIFAR_100})
    with pytest.raises(DataError, match="not CIFAR-10"):
        inspect_dataset.inspect("cifar10", tmp_path)
