"""Augmentation depends only on the seed and the sample."""

from pathlib import Path

import numpy as np
import pytest

from orchestrator.trainer.data import batches as data_batches
from orchestrator.trainer.data.batches import Split
from tests import samples

NOISE = np.random.default_rng(1).integers(1, 256, (3, 32, 32), np.uint8)  # no zero, so padding is recognisable
ORIGINAL = NOISE.transpose(1, 2, 0)


def noise(tmp_path: Path, **changes: object) -> Split:
    """Return CIFAR-10 with the same noise image two hundred times."""
    record = bytes([3]) + NOISE.tobytes()
    samples.cifar_archive(tmp_path, {"data_batch_1.bin": record * 200, "test_batch.bin": record})
    values = {"dataset": "cifar10", "data": str(tmp_path), "image_size": 32, "channels": 3, "augment": True}
    return data_batches.load(samples.train_config(**values, **changes))[0]


@pytest.fixture
def augmented(tmp_path: Path) -> Split:
    return noise(tmp_path)


def views(split: Split, indices: list[int], seed: int, batch: int = 16) -> np.ndarray:
    batches = split.batches(np.array(indices), batch, seed, drop_remainder=False)
    return np.concatenate([images.numpy() for images, _ in batches])


def test_views_depend_on_the_seed(augmented: Split) -> None:
    first, again, other = (views(augmented, list(range(20)), seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_view_is_independent_of_batch_and_rank(augmented: Split) -> None:
    everything = views(augmented, list(range(20)), seed=1)
    assert np.array_equal(views(augmented, [13], seed=1)[0], everything[13])
    assert np.array_equal(views(augmented, [5, 13, 2], seed=1, batch=2)[1], everything[13])


def test_samples_of_an_epoch_have_different_views(augmented: Split) -> None:
    group = views(augmented, list(range(50)), seed=1)
    assert len({view.tobytes() for view in group}) > 25


def seen(split: Split) -> list[tuple[int, bool]]:
    """Return the position of each of 200 views, and whether it is mirrored; fail if a view is no crop of the image."""
    padded = np.pad(ORIGINAL, ((4, 4), (4, 4), (0, 0)))
    crops = {(y, x): padded[y : y + 32, x : x + 32] for y in range(9) for x in range(9)}
    by_pixels = {crop[:, ::step].tobytes(): (9 * y + x, step < 0) for (y, x), crop in crops.items() for step in (1, -1)}
    return [by_pixels[view.tobytes()] for view in views(split, list(range(200)), seed=1)]


def mirrored(split: Split) -> list[bool]:
    return [is_mirrored for _, is_mirrored in seen(split)]


def test_half_of_the_views_are_mirrored(augmented: Split) -> None:
    assert 60 < sum(mirrored(augmented)) < 140


def test_views_are_not_mirrored_without_flip(tmp_path: Path) -> None:
    assert not any(mirrored(noise(tmp_path, flip=False)))


def test_smaller_shift_gives_fewer_views(tmp_path: Path) -> None:
    group = {view.tobytes() for view in views(noise(tmp_path, shift=1, flip=False), list(range(200)), seed=1)}
    assert len(group) == 9


def test_mirroring_is_independent_of_the_position(augmented: Split) -> None:
    positions: dict[bool, set[int]] = {True: set(), False: set()}
    for position, is_mirrored in seen(augmented):
        positions[is_mirrored].add(position)
    assert all(len(group) > 35 for group in positions.values())  # 81 positions with a hundred views each
    assert all(
        {position % 9 for position in group} == {position // 9 for position in group} == set(range(9))
        for group in positions.values()
    )


def test_test_split_is_not_augmented(tmp_path: Path) -> None:
    samples.cifar(tmp_path)
    values = {"dataset": "cifar10", "data": str(tmp_path), "image_size": 32, "channels": 3, "augment": True}
    test = data_batches.load(samples.train_config(**values))[1]
    assert np.array_equal(views(test, [0, 1], seed=1), views(test, [0, 1], seed=2))
