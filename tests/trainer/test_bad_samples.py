"""Runs that skip unreadable samples: which samples replace them, and how they are reported."""

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
from tests.trainer import class_folders, launcher
from tests.trainer.class_folders import damage

TRAIN, BAD, WORSE = 14, "train/n1/bad.JPEG", "train/n2/worse.JPEG"


def load(directory: Path, **changes: Any) -> tuple[Split, Split]:
    values = {"dataset": "imagenet", "data": str(directory), "image_size": 16, "channels": 3, "augment": True}
    return batches.load(samples.train_config(**{**values, **changes}))


class Skipped(list[str]):
    """A callback that collects the names of skipped samples."""

    def __call__(self, name: str, reason: str) -> None:
        assert "JPEG" in reason or "corrupted record" in reason
        self.append(name)


def image_batches(
    split: Split, order: np.ndarray, skipped: Skipped, whole: bool = True, batch: int = 5
) -> list[np.ndarray]:
    return [images.numpy() for images, _ in split.batches(order, batch, 3, whole, skipped)]


def numbers(split: Split) -> dict[str, int]:
    return {split.name(number).rpartition("folders/")[2]: number for number in range(split.size)}


def test_first_readable_image_of_the_batch_replaces_a_damaged_one(tmp_path: Path) -> None:
    split, skipped = load(class_folders.unreadable(tmp_path))[0], Skipped()
    bad, worse = (numbers(split)[name] for name in (BAD, WORSE))
    good = [number for number in range(TRAIN) if number not in (bad, worse)]
    order = np.array([*good[:5], bad, *good[5:7], worse, good[7], *good[8:12], bad])
    images = image_batches(split, order, skipped)
    assert [path.rpartition("folders/")[2] for path in skipped] == [BAD, WORSE]
    expected_order = np.array([*good[:5], good[5], *good[5:7], good[5], good[7], *good[8:12], good[8]])
    assert np.array_equal(np.concatenate(images), np.concatenate(image_batches(split, expected_order, skipped)))


def test_damaged_image_is_reported_once(tmp_path: Path) -> None:
    split, skipped = load(class_folders.unreadable(tmp_path))[0], Skipped()
    first, again = (image_batches(split, np.arange(TRAIN), skipped) for _ in range(2))
    assert len(skipped) == 2
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))


def test_batches_are_equal_after_resuming_within_an_epoch(tmp_path: Path) -> None:
    """As in a run that resumes within an epoch."""
    directory = class_folders.unreadable(tmp_path)
    order = np.random.default_rng(5).permutation(TRAIN)
    whole, rest = (image_batches(load(directory)[0], part, Skipped(), batch=4) for part in (order, order[4:]))
    assert all(np.array_equal(one, other) for one, other in zip(whole[1:], rest, strict=True))


def test_batch_without_readable_samples_raises(tmp_path: Path) -> None:
    split = load(class_folders.unreadable(tmp_path))[0]
    bad, worse = (numbers(split)[name] for name in (BAD, WORSE))
    with pytest.raises(DataError, match=r"^2 of 2 samples cannot be read: .*bad\.JPEG.*worse\.JPEG"):
        image_batches(split, np.array([bad, worse]), Skipped(), batch=2)


def test_evaluation_leaves_damaged_samples_out(tmp_path: Path) -> None:
    split, skipped = load(class_folders.unreadable(tmp_path))[0], Skipped()
    images = image_batches(split, np.arange(TRAIN), skipped, whole=False)
    assert (sum(map(len, images)), len(skipped)) == (TRAIN - 2, 2)


def test_record_with_wrong_checksum_is_skipped(dataset_copy: Path) -> None:
    split, skipped = load(dataset_copy / "records")[0], Skipped()
    assert split.records
    damage(Path(split.name(17).partition(",")[0]), int(split.records.offsets[17]) + 40)
    assert [len(images) for images in image_batches(split, np.arange(40), skipped)] == [5] * 8
    assert skipped == [split.name(17)]


def decodes(split: Split, number: int, seed: int) -> bool:
    try:
        list(split._pipeline(1, False, split.example)(np.array([number]), seed))
    except tf.errors.OpError:
        return False
    return True


def test_truncated_image_is_found_though_its_crop_decodes(tmp_path: Path) -> None:
    directory = class_folders.folders(tmp_path / "folders", train=12, val=4)
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
def test_run_with_skip_reports_damaged_samples(tmp_path: Path, ranks: int) -> None:
    data = class_folders.unreadable(tmp_path)
    (data / "val/n0/held.JPEG").write_bytes(samples.JPEG)
    values: dict[str, Any] = {"dataset": "imagenet", "image_size": 32, "channels": 3, "on_bad_sample": "skip"}
    output = launcher.train(tmp_path / "run", ranks, data=str(data), batch_size=6 // ranks, **values)
    assert output.returncode == 0, output.stdout
    images = launcher.results(tmp_path / "run")
    assert [(epoch.steps, epoch.train.images, epoch.test.images) for epoch in images.epochs] == [(2, 12, 4), (4, 12, 4)]
    named = [str(data / name) for name in (BAD, WORSE, "val/n0/held.JPEG")]
    assert set(images.damaged) <= set(named)
    assert named[2] in images.damaged
    message = r"^\[\d\]<stderr>:rank (\d) after step \d \(epoch \d\): skipped (.*?): "
    matches = re.findall(message, output.stdout, re.MULTILINE)
    assert len(matches) == len(set(matches))
    assert {name for _, name in matches} == set(images.damaged)
    assert f"skipped {len(images.damaged)} damaged sample" in output.stdout
