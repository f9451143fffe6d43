"""Pixels and labels of data sets that are read into memory."""

from pathlib import Path

import numpy as np

from orchestrator.trainer.data import batches
from orchestrator.trainer.data.batches import Split
from tests import samples


def everything(split: Split, seed: int = 1) -> tuple[np.ndarray, list[int]]:
    """Return all images and labels of a split, in its own order."""
    images, labels = next(iter(split.batches(np.arange(split.size), split.size, seed, drop_remainder=True)))
    return images.numpy(), labels.numpy().tolist()


def test_mnist_pixels_and_labels(tmp_path: Path) -> None:
    samples.mnist(tmp_path, {"train": 12, "t10k": 3})
    train, test = batches.load(samples.train_config(data=str(tmp_path)))
    images, labels = everything(train)
    assert (images.dtype, images.shape, labels) == (np.uint8, (12, 28, 28, 1), [*range(10), 0, 1])
    assert all((image == number).all() for number, image in enumerate(images))
    assert everything(test)[1] == [0, 1, 2]


def test_last_thousand_images_of_the_mnist_test_set_are_held_out() -> None:
    train, test = batches.load(samples.train_config(data=str(samples.MNIST)))
    assert (train.size, test.size) == (9000, 1000)
    assert everything(train)[1][:5] == [7, 2, 1, 0, 4]  # first published labels
    assert everything(test)[1][-3:] == [4, 5, 6]  # last published labels


def test_cifar_10_planes_become_channels(tmp_path: Path) -> None:
    samples.cifar(tmp_path, train=3, test=2)
    config = samples.train_config(dataset="cifar10", data=str(tmp_path), image_size=32, channels=3)
    train, test = batches.load(config)
    images, labels = everything(train)
    assert (images.dtype, images.shape, labels) == (np.uint8, (3, 32, 32, 3), [0, 1, 2])
    assert [image[5, 9].tolist() for image in images] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert everything(test)[0][0, 0, 0].tolist() == [100, 101, 102]


def test_cifar_10_rows_stay_rows(tmp_path: Path) -> None:
    planes = np.arange(32, dtype=np.uint8).repeat(32)  # every row of a plane has one value
    record = bytes([4]) + planes.tobytes() * 3
    samples.cifar_archive(tmp_path, {"data_batch_1.bin": record, "test_batch.bin": record})
    config = samples.train_config(dataset="cifar10", data=str(tmp_path), image_size=32, channels=3)
    images, _ = everything(batches.load(config)[0])
    assert images[0, :, 17, 1].tolist() == list(range(32))


def test_fashion_mnist_is_read_like_mnist(tmp_path: Path) -> None:
    samples.mnist(tmp_path, {"train": 12, "t10k": 3})
    images, labels = everything(batches.load(samples.train_config(dataset="fashion_mnist", data=str(tmp_path)))[0])
    assert (images.dtype, images.shape, labels) == (np.uint8, (12, 28, 28, 1), [*range(10), 0, 1])


def sdss(directory: Path, rows: list[dict[str, str]]) -> tuple[Split, Split]:
    samples.table(directory / "sky.csv", rows)
    shape = {"image_size": 1, "channels": 6, "classes": 3}
    return batches.load(samples.train_config(dataset="sdss", data=str(directory), augment=True, **shape))


def test_table_rows_are_standardised_by_the_training_rows(tmp_path: Path) -> None:
    train, test = sdss(tmp_path, [samples.sky(number) for number in range(40)])
    rows, labels = everything(train)
    assert (rows.dtype, rows.shape, labels[:4]) == (np.float32, (36, 1, 1, 6), [0, 1, 2, 0])
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(rows.std(axis=0), 1, atol=1e-6)
    training_rows = np.delete(np.arange(40.0), np.s_[9::10])
    np.testing.assert_allclose(
        everything(test)[0][:, 0, 0, 0], (np.arange(9, 40, 10) - training_rows.mean()) / training_rows.std(), 1e-5
    )


def test_constant_feature_becomes_zero(tmp_path: Path) -> None:
    train, _ = sdss(tmp_path, [{**samples.sky(number), "g": "17.5"} for number in range(20)])
    assert everything(train)[0][:, 0, 0, 1].tolist() == [0.0] * 18


def test_last_rows_of_a_table_are_left_out_only_from_whole_batches(tmp_path: Path) -> None:
    train, _ = sdss(tmp_path, [samples.sky(number) for number in range(40)])
    order = np.arange(36)[::-1]
    for whole, sizes in ((True, [8] * 4), (False, [8] * 4 + [4])):
        labels = [part.numpy() for _, part in train.batches(order, 8, seed=1, drop_remainder=whole)]
        assert [len(part) for part in labels] == sizes
        numbers = [everything(train)[1][number] for number in order[: sum(sizes)]]
        assert np.concatenate(labels).tolist() == numbers
