"""Decoding of image files to views of a given size."""

import base64
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.data import augmentation, batches, decoding
from orchestrator.trainer.data.batches import Split
from orchestrator.trainer.data.inspection import DataError
from tests import samples

# A JPEG of 40 x 40 pixels in four inks, which print as (235, 51, 51): ImageNet has some of this kind.
CMYK = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwADAgIDAgIDAwMDBAMDBAUIBQUEBAUKBwcGCAwKDAwLCgsLDQ4SEA0OEQ4LCxAWEBETFBUV"
    "FQwPFxgWFBgSFBUU/8AAFAgAKAAoBEMRAE0RAFkRAEsRAP/EABYAAQEBAAAAAAAAAAAAAAAAAAAICf/EABQQAQAAAAAAAAAAAAAA"
    "AAAAAAD/2gAOBEMATQBZAEsAAD8A1TR4jxo6AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/9k="
)


def everything(split: Split, seed: int = 1) -> tuple[np.ndarray, list[int]]:
    """Return all images and labels of a split, in its own order."""
    images, labels = next(iter(split.batches(np.arange(split.size), split.size, seed, drop_remainder=True)))
    return images.numpy(), labels.numpy().tolist()


def jpeg(colour: tuple[int, int, int], height: int = 40, width: int = 60) -> bytes:
    image = np.broadcast_to(np.array(colour, np.uint8), (height, width, 3))
    return bytes(tf.io.encode_jpeg(image, quality=100).numpy())


RED, GREEN, BLUE = (200, 20, 20), (20, 200, 20), (20, 20, 200)


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    files = {"train/n01/a.JPEG": jpeg(RED), "train/n02/b.JPEG": jpeg(GREEN), "val/n02/c.JPEG": jpeg(BLUE, 60, 40)}
    return samples.imagenet(tmp_path, files)


def test_data_after_the_end_of_a_jpeg_changes_no_pixel() -> None:
    """Phones append some, and the check of a data set accepts it."""
    image = jpeg(RED)
    seed = tf.constant([1, 2])
    for view in (augmentation.random_view, augmentation.central_view):
        assert np.array_equal(view(tf.constant(image + bytes(208)), 16, seed), view(tf.constant(image), 16, seed))


def load_imagenet(directory: Path, size: int = 16) -> tuple[Split, Split]:
    values = {"dataset": "imagenet", "data": str(directory), "image_size": size, "channels": 3, "augment": True}
    return batches.load(samples.train_config(**values))


def test_imagenet_gives_views_of_the_image_size_and_labels(imagenet: Path) -> None:
    train, test = load_imagenet(imagenet)
    images, labels = everything(train)
    assert (images.dtype, images.shape, labels) == (np.uint8, (2, 16, 16, 3), [0, 1])
    for image, colour in zip(images, (RED, GREEN), strict=True):
        np.testing.assert_allclose(image.astype(int), np.broadcast_to(colour, image.shape), atol=3)
    assert everything(test)[1] == [1]


def test_evaluation_view_is_the_centre(tmp_path: Path) -> None:
    """Seven eighths of the short side: of a square with a frame, only the square is visible."""
    image = np.zeros((80, 120, 3), np.uint8)
    image[5:75, 25:95] = 255
    content = bytes(tf.io.encode_jpeg(image, quality=100).numpy())
    samples.imagenet(tmp_path, {"train/n/a.jpg": content, "val/n/a.jpg": content})
    view, _ = everything(load_imagenet(tmp_path, size=32)[1])
    assert view.min() > 200


def test_grey_jpeg_gets_three_channels(tmp_path: Path) -> None:
    grey = bytes(tf.io.encode_jpeg(np.full((40, 40, 1), 99, np.uint8), format="grayscale").numpy())
    samples.imagenet(tmp_path, {"train/n/a.jpg": grey, "val/n/a.jpg": grey})
    images, _ = everything(load_imagenet(tmp_path)[0])
    assert images.shape == (1, 16, 16, 3)
    assert abs(int(images.mean()) - 99) <= 2


def test_cmyk_jpeg_gets_three_channels(tmp_path: Path) -> None:
    samples.imagenet(tmp_path, {"train/n/a.jpg": CMYK, "val/n/a.jpg": CMYK})
    for split in load_imagenet(tmp_path):
        images, _ = everything(split)
        np.testing.assert_allclose(images.astype(int), np.broadcast_to((235, 51, 51), images.shape), atol=3)


def gradient(height: int, width: int) -> np.ndarray:
    """Return an image with the column in red and the row in green."""
    rows, columns = np.indices((height, width))
    return np.stack([columns, rows, np.zeros_like(rows)], axis=2).astype(np.uint8)


@pytest.mark.parametrize("shape", [(50, 90), (90, 50), (7, 200), (1, 1)])
def test_png_named_jpeg_is_decoded(shape: tuple[int, int]) -> None:
    """ImageNet has one, published as n02105855_2933.JPEG."""
    png, jpeg = tf.io.encode_png(gradient(*shape)), tf.io.encode_jpeg(gradient(*shape), quality=100)
    for view in (augmentation.random_view, augmentation.central_view):
        for number in range(5):
            of_png, of_jpeg = (view(content, 16, tf.constant([1, number])).numpy() for content in (png, jpeg))
            assert of_png.shape == (16, 16, 3)
            np.testing.assert_allclose(of_png, of_jpeg, atol=6)


def test_random_views_cover_the_image_and_half_are_mirrored() -> None:
    content = tf.io.encode_png(gradient(60, 200))
    views = [augmentation.random_view(content, 8, tf.constant([1, number])).numpy() for number in range(200)]
    assert 60 < sum(is_mirrored(view) for view in views) < 140
    middles = [view[:, :, 0].mean() for view in views]
    assert min(middles) < 40
    assert max(middles) > 160


def is_mirrored(view: np.ndarray) -> bool:
    return bool(view[0, 0, 0] > view[0, -1, 0])


def test_training_on_imagenet_is_augmented_as_configured(tmp_path: Path) -> None:
    picture = bytes(tf.io.encode_png(gradient(60, 200)).numpy())
    files = {f"{split}/n0/{number}.JPEG": picture for split in ("train", "val") for number in range(40)}
    directory = samples.imagenet(tmp_path, files)

    def views(**changes: bool) -> np.ndarray:
        shape = {"dataset": "imagenet", "data": str(directory), "image_size": 8, "channels": 3}
        train = batches.load(samples.train_config(**shape, **changes))[0]
        return next(iter(train.batches(np.arange(40), 40, seed=1, drop_remainder=True)))[0].numpy()

    still, cropped, mirrored = views(augment=False), views(augment=True, flip=False), views(augment=True)
    assert (still == still[0]).all()
    assert not (cropped == cropped[0]).all()
    assert not any(map(is_mirrored, [*still, *cropped]))
    assert any(map(is_mirrored, mirrored))


def test_crop_and_mirroring_use_independent_seeds() -> None:
    """The sample's own seed does not predict whether the view is mirrored."""
    content, marks = tf.io.encode_png(gradient(60, 200)), tf.constant([[[0.0], [1.0]]])
    matching = 0
    for number in range(200):
        seed = tf.constant([1, number])
        crop, flip = augmentation.split_seed(seed)
        assert len({tuple(each.numpy().tolist()) for each in (seed, crop, flip)}) == 3
        drawn = bool(tf.image.stateless_random_flip_left_right(marks, seed)[0, 0, 0])
        matching += drawn == is_mirrored(augmentation.random_view(content, 8, seed).numpy())
    assert 60 < matching < 140


def huge(width: int, height: int) -> dict[str, bytes]:
    """Return small images whose header claims this size."""
    jpeg_file = bytearray(jpeg(RED))
    at = jpeg_file.index(b"\xff\xc0") + 5
    jpeg_file[at : at + 4] = struct.pack(">HH", height, width)
    png_file = bytearray(tf.io.encode_png(gradient(4, 4)).numpy())
    png_file[16:24] = struct.pack(">II", width, height)
    return {"jpeg": bytes(jpeg_file), "png": bytes(png_file)}


@pytest.mark.parametrize("form", ["jpeg", "png"])
@pytest.mark.parametrize(
    "decode", [decoding.whole, partial(augmentation.random_view, size=8, seed=tf.constant([1, 2]))]
)
def test_decompression_bomb_is_refused_by_its_header(form: str, decode: Callable[..., tf.Tensor]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="20000x30000 pixels, at most 89,478,485 are decoded"):
        decode(huge(20_000, 30_000)[form])


def test_decompression_bomb_among_samples_is_named(imagenet: Path) -> None:
    (imagenet / "train" / "n01" / "a.JPEG").write_bytes(huge(20_000, 30_000)["jpeg"])
    train, _ = batches.load(samples.train_config(dataset="imagenet", data=str(imagenet), image_size=8))
    with pytest.raises(DataError, match=r"n01/a.JPEG: .*20000x30000 pixels"):
        everything(train)
