"""Files in, pixels and labels out."""

from pathlib import Path

import numpy as np

from orchestrator.trainer import datasets
from orchestrator.trainer.datasets import Split
from tests import samples


def everything(split: Split, seed: int = 1) -> tuple[np.ndarray, list[int]]:
    """All images and labels of a split, in its own order."""
    images, labels = next(iter(split.batches(np.arange(split.size), split.size, seed, drop_remainder=True)))
    return images.numpy(), labels.numpy().tolist()


def test_mnist_gives_its_pixels_and_labels(tmp_path: Path) -> None:
    samples.mnist(tmp_path, {"train": 12, "t10k": 3})
    train, test = datasets.load(samples.train_config(data=str(tmp_path)))
    images, labels = everything(train)
    assert (images.dtype, images.shape, labels) == (np.uint8, (12, 28, 28, 1), [*range(10), 0, 1])
    assert all((image == number).all() for number, image in enumerate(images))
    assert everything(test)[1] == [0, 1, 2]


def test_of_mnists_test_set_alone_the_last_thousand_are_held_out() -> None:
    train, test = datasets.load(samples.train_config(data=str(samples.MNIST)))
    assert (train.size, test.size) == (9000, 1000)
    assert everything(train)[1][:5] == [7, 2, 1, 0, 4]  # as the published labels begin
    assert everything(test)[1][-3:] == [4, 5, 6]  # and end


def test_cifar_10_gives_its_planes_as_channels(tmp_path: Path) -> None:
    samples.cifar(tmp_path, train=3, test=2)
    config = samples.train_config(dataset="cifar10", data=str(tmp_path), image_size=32, channels=3)
    train, test = datasets.load(config)
    images, labels = everything(train)
    assert (images.dtype, images.shape, labels) == (np.uint8, (3, 32, 32, 3), [0, 1, 2])
    assert [image[5, 9].tolist() for image in images] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert everything(test)[0][0, 0, 0].tolist() == [100, 101, 102]


def test_the_rows_of_a_cifar_10_image_stay_rows(tmp_path: Path) -> None:
    planes = np.arange(32, dtype=np.uint8).repeat(32)  # every row of a plane has one value
    record = bytes([4]) + planes.tobytes() * 3
    samples.cifar_archive(tmp_path, {"data_batch_1.bin": record, "test_batch.bin": record})
    config = samples.train_config(dataset="cifar10", data=str(tmp_path), image_size=32, channels=3)
    images, _ = everything(datasets.load(config)[0])
    assert images[0, :, 17, 1].tolist() == list(range(32))
