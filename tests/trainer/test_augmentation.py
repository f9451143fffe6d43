"""Augmentation: a function of the seed and the sample, and of nothing else."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.data import datasets
from orchestrator.trainer.data.datasets import Split
from tests import samples

NOISE = np.random.default_rng(1).integers(1, 256, (3, 32, 32), np.uint8)  # no zero, so that padding is told from it
ORIGINAL = NOISE.transpose(1, 2, 0)


def noise(tmp_path: Path, **changes: object) -> Split:
    """CIFAR-10 with two hundred times the same image of noise."""
    record = bytes([3]) + NOISE.tobytes()
    samples.cifar_archive(tmp_path, {"data_batch_1.bin": record * 200, "test_batch.bin": record})
    values = {"dataset": "cifar10", "data": str(tmp_path), "image_size": 32, "channels": 3, "augment": True}
    return datasets.load(samples.train_config(**values, **changes))[0]


@pytest.fixture
def augmented(tmp_path: Path) -> Split:
    return noise(tmp_path)


def views(split: Split, indices: list[int], seed: int, batch: int = 16) -> np.ndarray:
    batches = split.batches(np.array(indices), batch, seed, drop_remainder=False)
    return np.concatenate([images.numpy() for images, _ in batches])


def test_the_same_seed_gives_the_same_views_and_another_seed_others(augmented: Split) -> None:
    one, again, other = (views(augmented, list(range(20)), seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_samples_view_depends_neither_on_its_batch_nor_on_its_rank(augmented: Split) -> None:
    everything = views(augmented, list(range(20)), seed=1)
    assert np.array_equal(views(augmented, [13], seed=1)[0], everything[13])
    assert np.array_equal(views(augmented, [5, 13, 2], seed=1, batch=2)[1], everything[13])


def test_samples_of_one_epoch_have_views_of_their_own(augmented: Split) -> None:
    found = views(augmented, list(range(50)), seed=1)
    assert len({view.tobytes() for view in found}) > 25


def mirrored(split: Split) -> list[bool]:
    """Of two hundred views, whether each is mirrored. Fails where one is no crop of the padded image."""
    padded = np.pad(ORIGINAL, ((4, 4), (4, 4), (0, 0)))
    crops = [padded[y : y + 32, x : x + 32] for y in range(9) for x in range(9)]
    known = {crop.tobytes(): False for crop in crops} | {crop[:, ::-1].tobytes(): True for crop in crops}
    return [known[view.tobytes()] for view in views(split, list(range(200)), seed=1)]


def test_views_are_the_image_moved_by_four_pixels_at_most_and_mirrored_half_of_the_time(augmented: Split) -> None:
    assert 60 < sum(mirrored(augmented)) < 140


def test_what_must_not_be_mirrored_is_moved_alone(tmp_path: Path) -> None:
    assert not any(mirrored(noise(tmp_path, flip=False)))


def test_a_smaller_shift_gives_fewer_views(tmp_path: Path) -> None:
    seen = {view.tobytes() for view in views(noise(tmp_path, shift=1, flip=False), list(range(200)), seed=1)}
    assert len(seen) == 9


def test_whether_a_view_is_mirrored_is_not_drawn_from_the_seed_that_moves_it(augmented: Split) -> None:
    """What the sample's own seed would draw for the mirror says nothing about the view."""
    marks = tf.constant([[[0.0], [1.0]]])
    seeds = (tf.constant([1, number]) for number in range(200))
    drawn = [bool(tf.image.stateless_random_flip_left_right(marks, seed)[0, 0, 0]) for seed in seeds]
    assert 60 < sum(a == b for a, b in zip(drawn, mirrored(augmented), strict=True)) < 140


def test_the_test_split_is_never_augmented(tmp_path: Path) -> None:
    samples.cifar(tmp_path)
    values = {"dataset": "cifar10", "data": str(tmp_path), "image_size": 32, "channels": 3, "augment": True}
    test = datasets.load(samples.train_config(**values))[1]
    assert np.array_equal(views(test, [0, 1], seed=1), views(test, [0, 1], seed=2))
