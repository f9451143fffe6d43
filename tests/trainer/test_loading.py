"""Files in, pixels and labels out."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

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


def jpeg(colour: tuple[int, int, int], height: int = 40, width: int = 60) -> bytes:
    image = np.broadcast_to(np.array(colour, np.uint8), (height, width, 3))
    return bytes(tf.io.encode_jpeg(image, quality=100).numpy())


RED, GREEN, BLUE = (200, 20, 20), (20, 200, 20), (20, 20, 200)


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    files = {"train/n01/a.JPEG": jpeg(RED), "train/n02/b.JPEG": jpeg(GREEN), "val/n02/c.JPEG": jpeg(BLUE, 60, 40)}
    return samples.imagenet(tmp_path, files)


def load_imagenet(directory: Path, size: int = 16) -> tuple[Split, Split]:
    values = {"dataset": "imagenet", "data": str(directory), "image_size": size, "channels": 3, "augment": True}
    return datasets.load(samples.train_config(**values))


def test_imagenet_gives_views_of_the_asked_size_with_the_class_as_label(imagenet: Path) -> None:
    train, test = load_imagenet(imagenet)
    images, labels = everything(train)
    assert (images.dtype, images.shape, labels) == (np.uint8, (2, 16, 16, 3), [0, 1])
    for image, colour in zip(images, (RED, GREEN), strict=True):
        np.testing.assert_allclose(image.astype(int), np.broadcast_to(colour, image.shape), atol=3)
    assert everything(test)[1] == [1]


def test_the_view_for_evaluation_is_the_centre(tmp_path: Path) -> None:
    """Seven eighths of the short side: of a frame around a square, only the square is seen."""
    image = np.zeros((80, 120, 3), np.uint8)
    image[5:75, 25:95] = 255
    content = bytes(tf.io.encode_jpeg(image, quality=100).numpy())
    samples.imagenet(tmp_path, {"train/n/a.jpg": content, "val/n/a.jpg": content})
    view, _ = everything(load_imagenet(tmp_path, size=32)[1])
    assert view.min() > 200


def test_a_grey_jpeg_has_three_channels_too(tmp_path: Path) -> None:
    grey = bytes(tf.io.encode_jpeg(np.full((40, 40, 1), 99, np.uint8), format="grayscale").numpy())
    samples.imagenet(tmp_path, {"train/n/a.jpg": grey, "val/n/a.jpg": grey})
    images, _ = everything(load_imagenet(tmp_path)[0])
    assert images.shape == (1, 16, 16, 3)
    assert abs(int(images.mean()) - 99) <= 2


def test_a_png_with_a_jpegs_name_is_trained_on_too(tmp_path: Path) -> None:
    """ImageNet has one, published as n02105855_2933.JPEG."""
    png = bytes(tf.io.encode_png(np.full((40, 40, 3), 99, np.uint8)).numpy())
    samples.imagenet(tmp_path, {"train/n/a.jpg": png, "val/n/a.jpg": png})
    for split in load_imagenet(tmp_path):
        assert abs(int(everything(split)[0].mean()) - 99) <= 2
