"""Data sets on the control side: found in their directory, refused if incomplete."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.runs import datasets
from tests import samples

IMAGES, LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


def nothing(text: str) -> None:
    pass


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """Copy the published test set, for tests that damage it."""
    return Path(shutil.copytree(samples.MNIST, tmp_path / "mnist"))


def test_published_test_set_is_split_and_the_user_is_told() -> None:
    dataset = datasets.find("mnist", samples.MNIST, nothing)
    assert dataset is not None
    assert (dataset.train, dataset.test, dataset.files) == (9000, 1000, [IMAGES, LABELS])
    assert "its last 1000 images are used for the test" in dataset.note


def test_working_directory_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mnist: Path) -> None:
    for name in ("tarfile", "csv", "gzip", "json", "struct", "orchestrator/__init__"):
        (tmp_path / f"{name}.py").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    dataset = datasets.find("mnist", Path("mnist"), nothing)
    assert dataset is not None
    assert not (tmp_path / "imported").exists()


def test_synthetic_data_needs_no_files_and_says_that_it_reads_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert datasets.find("synthetic", None, nothing) is None
    assert capsys.readouterr().err == ""
    assert datasets.find("synthetic", Path("/tmp"), nothing) is None
    assert "train.data: /tmp is not read: data set synthetic has no files" in capsys.readouterr().err


def test_directory_in_the_home_directory_is_found(monkeypatch: pytest.MonkeyPatch, mnist: Path) -> None:
    monkeypatch.setenv("HOME", str(mnist.parent))
    dataset = datasets.find("mnist", Path("~/mnist"), nothing)
    assert dataset is not None
    assert dataset.directory == mnist


def truncate(directory: Path) -> None:
    path = directory / IMAGES
    path.write_bytes(path.read_bytes()[:100_000])


def remove_labels(directory: Path) -> None:
    (directory / LABELS).unlink()


def swap(directory: Path) -> None:
    (directory / IMAGES).rename(directory / "x")
    (directory / LABELS).rename(directory / IMAGES)
    (directory / "x").rename(directory / LABELS)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (shutil.rmtree, "no such directory"),
        (lambda directory: [path.unlink() for path in directory.iterdir()], "empty"),
        (truncate, "truncated or not gzip"),
        (remove_labels, "t10k-labels-idx1-ubyte.gz is missing"),
        (swap, "not an idx file of images"),
    ],
)
def test_directory_without_the_data_set_is_refused(mnist: Path, damage: Callable[[Path], object], problem: str) -> None:
    damage(mnist)
    with pytest.raises(ConfigError) as caught:
        datasets.find("mnist", mnist, nothing)
    assert caught.value.message.startswith(f"train.data: {mnist}")
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("dataset", "problem"),
    [("cifar10", "no CIFAR-10 here"), ("sdss", "no SDSS table here"), ("imagenet", "no ImageNet here: folder train/")],
)
def test_directory_with_another_data_set_is_refused(dataset: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        datasets.find(dataset, samples.MNIST, nothing)


def remote(directory: Path) -> str:
    dataset = datasets.find("mnist", directory, nothing)
    assert dataset is not None
    return dataset.remote


def test_directory_on_the_nodes_changes_with_the_files(mnist: Path) -> None:
    before = remote(mnist)
    assert before.startswith("/shared/data/mnist-")
    assert remote(mnist) == before
    status = (mnist / LABELS).stat()
    os.utime(mnist / LABELS, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert remote(mnist) != before


def test_directory_on_the_nodes_does_not_depend_on_the_local_one(mnist: Path) -> None:
    before = remote(mnist)
    moved = mnist.rename(mnist.with_name("elsewhere"))
    assert remote(moved) == before


def test_part_of_a_published_data_set_is_noted(tmp_path: Path) -> None:
    """Unpacking that was interrupted leaves whole files: three of the five batches of CIFAR-10, and the test."""
    dataset = datasets.find("cifar10", samples.cifar(tmp_path, train=5, test=2), nothing)
    assert dataset is not None
    assert dataset.note == "5 of 50,000 train images and 2 of 10,000 test images of the published data set are here"


def test_class_folders_of_another_data_set_are_not_compared_with_imagenet(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, {"train/cat/a.jpg": samples.JPEG, "val/cat/a.jpg": samples.JPEG})
    dataset = datasets.find("imagenet", tmp_path, nothing)
    assert dataset is not None
    assert dataset.note == ""
