"""Samples that cannot be read, in a run that goes on without them: what takes their place, and who is told."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.data import batches
from orchestrator.trainer.data.batches import Split
from orchestrator.trainer.data.inspection import DataError
from tests import samples
from tests.trainer import launcher, preparing
from tests.trainer.preparing import spoil

TRAIN, BAD, WORSE = 14, "train/n1/bad.JPEG", "train/n2/worse.JPEG"


def load(directory: Path, **changes: Any) -> tuple[Split, Split]:
    values = {"dataset": "imagenet", "data": str(directory), "image_size": 16, "channels": 3, "augment": True}
    return batches.load(samples.train_config(**{**values, **changes}))


class Told(list[str]):
    """The names that were told."""

    def __call__(self, name: str, reason: str) -> None:
        assert "JPEG" in reason or "corrupted record" in reason
        self.append(name)


def taken(split: Split, order: np.ndarray, told: Told, whole: bool = True, batch: int = 5) -> list[np.ndarray]:
    return [images.numpy() for images, _ in split.batches(order, batch, 3, whole, told)]


def numbers(split: Split) -> dict[str, int]:
    return {split.name(number).rpartition("folders/")[2]: number for number in range(split.size)}


def test_the_first_of_its_batch_that_can_be_read_takes_the_place_of_a_damaged_image(tmp_path: Path) -> None:
    split, told = load(preparing.unreadable(tmp_path))[0], Told()
    bad, worse = (numbers(split)[name] for name in (BAD, WORSE))
    good = [number for number in range(TRAIN) if number not in (bad, worse)]
    order = np.array([*good[:5], bad, *good[5:7], worse, good[7], *good[8:12], bad])
    found = taken(split, order, told)
    assert [path.rpartition("folders/")[2] for path in told] == [BAD, WORSE]
    instead = np.array([*good[:5], good[5], *good[5:7], good[5], good[7], *good[8:12], good[8]])
    assert np.array_equal(np.concatenate(found), np.concatenate(taken(split, instead, told)))


def test_a_damaged_image_is_named_once_and_looked_for_never_again(tmp_path: Path) -> None:
    split, told = load(preparing.unreadable(tmp_path))[0], Told()
    first, again = (taken(split, np.arange(TRAIN), told) for _ in range(2))
    assert len(told) == 2
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))


def test_batches_are_the_same_from_any_place_on_though_nothing_is_known_of_damage_there(tmp_path: Path) -> None:
    """As in a run that goes on within an epoch."""
    directory = preparing.unreadable(tmp_path)
    order = np.random.default_rng(5).permutation(TRAIN)
    whole, rest = (taken(load(directory)[0], part, Told(), batch=4) for part in (order, order[4:]))
    assert all(np.array_equal(one, other) for one, other in zip(whole[1:], rest, strict=True))


def test_a_batch_of_which_nothing_can_be_read_ends_all(tmp_path: Path) -> None:
    split = load(preparing.unreadable(tmp_path))[0]
    bad, worse = (numbers(split)[name] for name in (BAD, WORSE))
    with pytest.raises(DataError, match=r"^2 of 2 samples cannot be read: .*bad\.JPEG.*worse\.JPEG"):
        taken(split, np.array([bad, worse]), Told(), batch=2)


def test_where_every_sample_counts_once_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    split, told = load(preparing.unreadable(tmp_path))[0], Told()
    found = taken(split, np.arange(TRAIN), told, whole=False)
    assert (sum(map(len, found)), len(told)) == (TRAIN - 2, 2)


def test_a_record_with_another_checksum_is_damaged_too(copy: Path) -> None:
    split, told = load(copy / "records")[0], Told()
    assert split.records
    spoil(Path(split.name(17).partition(",")[0]), int(split.records.offsets[17]) + 40)
    assert [len(images) for images in taken(split, np.arange(40), told)] == [5] * 8
    assert told == [split.name(17)]


def decodes(split: Split, number: int, seed: int) -> bool:
    try:
        list(split._pipeline(1, False, split.example)(np.array([number]), seed))
    except tf.errors.OpError:
        return False
    return True


def test_an_image_that_is_cut_off_is_named_though_a_crop_of_it_can_be_decoded(tmp_path: Path) -> None:
    directory = preparing.folders(tmp_path / "folders", train=12, val=4)
    noise = np.random.default_rng(1).integers(0, 256, (256, 64, 3), np.uint8)
    content = bytes(tf.io.encode_jpeg(noise).numpy())
    for path in directory.glob("train/*/*.JPEG"):
        path.write_bytes(content[: len(content) * 3 // 4])
    split, _ = load(directory)
    number = next(number for number in range(12) if decodes(split, number, 0))
    seed = next(seed for seed in range(1, 99) if not decodes(split, number, seed))
    with pytest.raises(DataError, match=f"^1 of 1 samples cannot be read: {split.name(number)}: "):
        list(split.batches(np.array([number]), 1, seed, True))


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_goes_on_after_damage_and_counts_it(tmp_path: Path, ranks: int) -> None:
    data = preparing.unreadable(tmp_path)
    (data / "val/n0/held.JPEG").write_bytes(samples.JPEG)
    values: dict[str, Any] = {"dataset": "imagenet", "image_size": 32, "channels": 3, "on_bad_sample": "skip"}
    said = launcher.train(tmp_path / "run", ranks, data=str(data), batch_size=6 // ranks, **values)
    assert said.returncode == 0, said.stdout
    found = launcher.results(tmp_path / "run")
    assert [(epoch.steps, epoch.train.images, epoch.test.images) for epoch in found.epochs] == [(2, 12, 4), (4, 12, 4)]
    named = [str(data / name) for name in (BAD, WORSE, "val/n0/held.JPEG")]
    assert set(found.damaged) <= set(named)
    assert named[2] in found.damaged
    place = r"^\[\d\]<stderr>:rank (\d) after step \d \(epoch \d\): goes on without (.*?): "
    met = re.findall(place, said.stdout, re.MULTILINE)
    assert len(met) == len(set(met))
    assert {name for _, name in met} == set(found.damaged)
    assert f"skipped {len(found.damaged)} damaged sample" in said.stdout
