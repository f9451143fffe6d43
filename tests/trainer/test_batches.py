"""Samples, order and batches of a rank."""

from pathlib import Path

import numpy as np
import pytest

from orchestrator.trainer.data import batches as data_batches
from orchestrator.trainer.data import sample_order as data_order
from orchestrator.trainer.data.batches import Split
from orchestrator.trainer.data.inspection import DataError
from tests import samples

WORLDS = [1, 2, 3, 4, 7, 16, 100]


@pytest.mark.parametrize("world", WORLDS)
def test_shards_are_disjoint_balanced_and_complete(world: int) -> None:
    split = synthetic(101)
    shards = [split.share(1, 1, world, rank) for rank in range(world)]
    assert sorted(np.concatenate(shards).tolist()) == list(range(101))
    sizes = {len(shard) for shard in shards}
    assert max(sizes) - min(sizes) <= 1


def test_epoch_order_is_reproducible() -> None:
    assert (
        data_order.epoch_order(1000, seed=1, epoch=3).tolist() == data_order.epoch_order(1000, seed=1, epoch=3).tolist()
    )


def test_epoch_order_depends_on_epoch_and_seed() -> None:
    orders = [data_order.epoch_order(1000, seed, epoch).tolist() for seed in (1, 2, 3) for epoch in (1, 2, 3)]
    assert len({tuple(order) for order in orders}) == 9
    assert all(sorted(order) == list(range(1000)) for order in orders)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("batch", [1, 3, 16, 101])
def test_uneven_shards_give_full_batches_for_every_step(world: int, batch: int) -> None:
    """Check the number of steps that `rank_setup.build` plans: with fewer, a rank would leave the others waiting."""
    batch = min(batch, 101 // world)
    steps = 101 // (world * batch)
    split = synthetic(101)
    shards = [split.share(1, 1, world, rank) for rank in range(world)]
    assert steps >= 1
    assert min(len(shard) for shard in shards) >= steps * batch


def synthetic(count: int, **changes: object) -> Split:
    config = {"dataset": "synthetic", "synthetic_images": count, "image_size": 8, "channels": 3, **changes}
    return data_batches.load(samples.train_config(**config))[0]


@pytest.mark.parametrize(("count", "batch", "drop", "sizes"), [(10, 4, True, [4, 4]), (10, 4, False, [4, 4, 2])])
def test_partial_batch_is_dropped_in_training_only(count: int, batch: int, drop: bool, sizes: list[int]) -> None:
    batches = list(synthetic(count).batches(np.arange(count), batch, seed=1, drop_remainder=drop))
    assert [len(labels) for _, labels in batches] == sizes


def test_batches_keep_the_order_of_the_indices() -> None:
    split = synthetic(20)
    every = dict(zip(range(20), pixels(split, np.arange(20)), strict=True))
    order = np.array([7, 3, 19, 0])
    assert all(np.array_equal(image, every[index]) for image, index in zip(pixels(split, order), order, strict=True))


def pixels(split: Split, order: np.ndarray, seed: int = 1) -> np.ndarray:
    batches = split.batches(order, 3, seed, drop_remainder=False)
    return np.concatenate([images.numpy() for images, _ in batches])


@pytest.mark.parametrize("world", [1, 2, 3, 5, 7, 60])
def test_evaluation_counts_every_sample_once(world: int) -> None:
    """Shard like `train._evaluate`: the labels of all ranks together are those of the split."""
    split = synthetic(53)
    evaluated: list[int] = []
    for rank in range(world):
        for _, labels in split.batches(split.part(world, rank), 8, seed=0, drop_remainder=False):
            evaluated += labels.numpy().tolist()
    everything = next(iter(split.batches(np.arange(53), 53, seed=0, drop_remainder=True)))[1].numpy().tolist()
    assert sorted(evaluated) == sorted(everything)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize(("limit", "evaluated"), [(None, 9), (1, 1), (5, 5), (64, 9)])
@pytest.mark.parametrize("kind", ["synthetic", "mnist", "folders", "records"])
def test_ranks_evaluate_the_first_samples_of_the_test_split(
    kind: str, dataset: Path, tmp_path: Path, world: int, limit: "int | None", evaluated: int
) -> None:
    """Each of the nine samples of a split is evaluated once for any number of ranks.

    The first ones of class folders are those of their shards, which are of all classes.
    """
    ordered = "records" if kind == "folders" and evaluated < 9 else kind
    whole, split = load(ordered, dataset, tmp_path)[1], load(kind, dataset, tmp_path, test_samples=limit)[1]
    images = pixels(whole, np.arange(whole.size))
    parts = [split.part(world, rank) for rank in range(world)]
    assert (whole.size, split.size) == (9, evaluated)
    assert sorted(np.concatenate(parts).tolist()) == list(range(evaluated))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for part in filter(len, parts):
        assert np.array_equal(pixels(split, part), images[part])


def load(kind: str, dataset: Path, directory: Path, **changes: object) -> tuple[Split, Split]:
    """Load a data set with nine test samples."""
    if kind == "mnist":
        data = samples.mnist(directory / "mnist", {"train": 70, "t10k": 9})
        return data_batches.load(samples.train_config(data=str(data), **changes))
    shape: dict[str, object] = {"image_size": 16, "channels": 3, "synthetic_images": 90}
    if kind != "synthetic":
        shape |= {"dataset": "imagenet", "data": str(dataset / kind)}
    return data_batches.load(samples.train_config(**{"dataset": "synthetic", **shape, **changes}))


@pytest.mark.parametrize("kind", ["folders", "records"])
def test_more_classes_than_the_recipe_has_are_refused(kind: str, dataset: Path, tmp_path: Path) -> None:
    """Both have five classes: labels 0 to 4 in folders, 1 to 5 in shards."""
    load(kind, dataset, tmp_path, classes=5)
    with pytest.raises(DataError, match="5 classes, at most 4 expected"):
        load(kind, dataset, tmp_path, classes=4)


def test_rank_without_test_samples_has_no_batches() -> None:
    split = synthetic(5)
    assert list(split.batches(split.part(6, 5), 4, seed=0, drop_remainder=False)) == []


def test_synthetic_data_is_equal_on_every_rank() -> None:
    config = samples.train_config(dataset="synthetic", synthetic_images=40, image_size=8, channels=3)
    (train, test), (again, _) = data_batches.load(config), data_batches.load(config)
    assert (train.size, test.size) == (40, 4)
    assert np.array_equal(pixels(train, np.arange(40)), pixels(again, np.arange(40)))
