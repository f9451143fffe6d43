"""TFRecord shards read record by record: assignment to ranks, order, and damaged records."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.data import augmentation, manifests, tfrecord_reader
from orchestrator.trainer.data import batches as data_batches
from orchestrator.trainer.data.batches import Split
from orchestrator.trainer.data.inspection import DataError
from orchestrator.trainer.data.tfrecord_reader import Records
from tests import samples
from tests.trainer import launcher
from tests.trainer.class_folders import damage, unreadable

SIZES = [7, 0, 12, 1, 30]  # records of uneven shards


def load(directory: Path, **changes: Any) -> tuple[Split, Split]:
    values = {"dataset": "imagenet", "data": str(directory), "image_size": 16, "channels": 3, "augment": True}
    return data_batches.load(samples.train_config(**{**values, **changes}))


def everything(split: Split, seed: int = 1) -> tuple[np.ndarray, list[int]]:
    images, labels = next(iter(split.batches(np.arange(split.size), split.size, seed, drop_remainder=True)))
    return images.numpy(), labels.numpy().tolist()


def samples_of(split: Split) -> list[tuple[int, bytes]]:
    """Return labels and pixels in any order."""
    images, labels = everything(split)
    return sorted(zip(labels, map(bytes, images), strict=True))


def test_evaluation_equals_that_of_class_folders(dataset: Path) -> None:
    (_, of_records), (_, of_folders) = load(dataset / "records"), load(dataset / "folders")
    assert samples_of(of_records) == samples_of(of_folders)


def test_random_view_of_a_record_equals_that_of_its_image(dataset: Path) -> None:
    split, _ = load(dataset / "records")
    assert split.records
    images, labels = everything(split, seed=7)
    contents = list(split.records.contents(tf.range(40, dtype=tf.int64)))
    for number in (0, 11, 39):
        encoded, label = split.records.parse(contents[number])
        view = augmentation.random_view(encoded, 16, tf.constant([7, number]))
        assert np.array_equal(images[number], view.numpy())
        assert labels[number] == int(label)


@pytest.mark.parametrize("readers", [1, manifests.READERS])
def test_contents_come_in_the_order_of_the_numbers(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    monkeypatch.setattr(Records, "readers", readers)
    records = load(dataset / "records")[0].records
    assert records
    numbers = np.random.default_rng(5).permutation(len(records))
    one_after_the_other = list(tf.data.TFRecordDataset(records.paths).as_numpy_iterator())
    contents = list(records.contents(tf.constant(numbers)).as_numpy_iterator())
    assert contents == [one_after_the_other[number] for number in numbers]


def test_batches_keep_their_order_from_any_position(dataset: Path) -> None:
    split, _ = load(dataset / "records")
    order = split.share(seed=3, epoch=2, world=2, rank=1)
    whole = [images.numpy() for images, _ in split.batches(order, 4, 5, drop_remainder=True)]
    rest = [images.numpy() for images, _ in split.batches(order[3 * 4 :], 4, 5, drop_remainder=True)]
    assert len(whole) == 5
    assert all(np.array_equal(one, other) for one, other in zip(whole[3:], rest, strict=True))


def uneven() -> Records:
    return Records(["x"] * len(SIZES), SIZES, np.zeros(sum(SIZES)), np.zeros(sum(SIZES)), 1)


@pytest.mark.parametrize("world", [1, 2, 3, 7, 50, 60])
def test_shares_of_ranks_are_equal_and_cover_all_records(world: int) -> None:
    shares = [uneven().share(1, 1, world, rank) for rank in range(world)]
    parts = [uneven().part(world, rank) for rank in range(world)]
    for dealt in (shares, parts):
        assert sorted(np.concatenate(dealt).tolist()) == list(range(50))
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_rank_keeps_its_samples_in_a_new_order_each_epoch() -> None:
    cases = ((1, 1), (1, 2), (1, 1), (2, 1))
    first, second, again, other = (uneven().share(seed, epoch, 2, 0).tolist() for seed, epoch in cases)
    assert first == again
    assert len({tuple(order) for order in (first, second, other)}) == 3
    assert set(first) == set(second) == set(range(25))


def test_samples_are_shuffled_within_a_window_of_shards() -> None:
    many = Records(["x"] * 20, [10] * 20, np.zeros(200), np.zeros(200), 1)
    order = many.share(1, 1, 1, 0)
    windows = [set((order[first : first + 40] // 10).tolist()) for first in range(0, 200, 40)]
    assert [len(window) for window in windows] == [tfrecord_reader.WINDOW] * 5
    assert order[:40].tolist() != sorted(order[:40].tolist())


def test_shards_without_manifest_are_read_with_either_label_base(dataset: Path, tmp_path: Path) -> None:
    for base in (0, 1):
        brought = tmp_path / str(base)
        brought.mkdir()
        for path in (dataset / "records").glob("*-of-0000?"):
            name = path.name.replace("val-", "validation-")
            with tf.io.TFRecordWriter(str(brought / name)) as writer:
                for record in tf.data.TFRecordDataset(str(path)):
                    example = tf.train.Example.FromString(record.numpy())
                    example.features.feature["image/class/label"].int64_list.value[0] += base - 1
                    writer.write(example.SerializeToString())
        assert sorted(everything(load(brought)[0])[1]) == sorted(number % 5 for number in range(40))


def shard(path: Path, labels: list[int]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for label in labels:
            encoded = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"image"]))
            number = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
            features = tf.train.Features(feature={manifests.ENCODED: encoded, manifests.LABEL: number})
            writer.write(tf.train.Example(features=features).SerializeToString())


def test_label_base_is_found_late_in_a_shard_without_manifest(tmp_path: Path) -> None:
    shard(tmp_path / "train-00000-of-00001", [2, 1] * manifests.SAMPLED + [0])
    shard(tmp_path / "val-00000-of-00001", [1])
    assert manifests.scan(tmp_path, classes=3).label_base == 0


def test_scan_stops_once_the_label_base_is_known(tmp_path: Path) -> None:
    path = tmp_path / "train-00000-of-00001"
    shard(path, [1, 3] * manifests.SAMPLED)
    shard(tmp_path / "val-00000-of-00001", [1])
    damage(path, path.stat().st_size - 20)
    assert manifests.scan(tmp_path, classes=3).label_base == 1
    with pytest.raises(DataError, match=f"{path}: corrupted record"):
        manifests.scan(tmp_path, classes=4)


@pytest.mark.parametrize(("label", "known"), [(-1, "0 to 2"), (3, "0 to 2")])
def test_label_of_no_class_is_an_error(tmp_path: Path, label: int, known: str) -> None:
    """A scan reads only some labels; a label of no class would be trained as none of them."""
    shard(tmp_path / "train-00000-of-00001", [0] * manifests.SAMPLED + [1, label])
    shard(tmp_path / "val-00000-of-00001", [2])
    records = tfrecord_reader.load(tmp_path, classes=3)["train"]
    contents = list(records.contents(tf.constant([manifests.SAMPLED, manifests.SAMPLED + 1], tf.int64)))
    assert int(records.parse(contents[0])[1]) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"label {label}, expected {known}"):
        records.parse(contents[1])


def test_label_of_no_class_among_the_scanned_does_not_move_the_others(tmp_path: Path) -> None:
    shard(tmp_path / "train-00000-of-00001", [-1, 0, 2])
    shard(tmp_path / "val-00000-of-00001", [1])
    assert manifests.scan(tmp_path, classes=3).label_base == 0


def test_damaged_record_raises_with_its_shard(dataset_copy: Path) -> None:
    split, _ = load(dataset_copy / "records")
    assert split.records
    number = 17
    damage(Path(split.name(number).partition(",")[0]), int(split.records.offsets[number]) + 40)
    batches = iter(split.batches(np.arange(40), 8, 1, drop_remainder=True))
    assert [len(labels) for _, labels in (next(batches), next(batches))] == [8, 8]
    location = r".*/train-0000\d-of-00004, record at byte \d+"
    with pytest.raises(DataError, match=rf"^1 of 8 samples cannot be read: {location}: .*corrupted record"):
        next(batches)


def test_undecodable_image_raises_with_its_name(tmp_path: Path) -> None:
    split, _ = load(unreadable(tmp_path))
    named = ".*/train/n1/bad.JPEG: .*JPEG.*; .*/train/n2/worse.JPEG: "
    with pytest.raises(DataError, match=f"^2 of 14 samples cannot be read: {named}"):
        list(split.batches(np.arange(14), 14, 1, drop_remainder=True))


@pytest.mark.parametrize(
    ("change", "problem"), [(Path.unlink, "missing"), (lambda path: os.truncate(path, 9), "9 bytes instead of")]
)
def test_missing_or_short_shard_is_named_at_load(
    dataset_copy: Path, change: Callable[[Path], object], problem: str
) -> None:
    change(dataset_copy / "records" / "train-00001-of-00004")
    with pytest.raises(DataError, match=f"train-00001-of-00004: {problem}"):
        load(dataset_copy / "records")


def rewritten(manifest: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(manifest.read_text())
    change(content)
    manifest.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda content: content["shards"]["train"][0].update(name="../../etc/passwd"), "shards.train.0.name"),
        (lambda content: content["shards"]["train"][0]["lengths"].append(-1), "greater than or equal to 0"),
        (lambda content: content["shards"]["train"][0]["lengths"].append(10**30), "less than"),
        (lambda content: content["shards"]["train"][0]["lengths"].append(5), "with [0-9]+ in records"),
        (lambda content: content["shards"].pop("val"), r"shards of \['train'\]"),
        (lambda content: content.update(shards=[]), "shards: "),
        (lambda content: content.clear(), "label_base: Field required"),
    ],
)
def test_invalid_manifest_is_named(dataset_copy: Path, change: Callable[[Any], object], problem: str) -> None:
    rewritten(dataset_copy / "records" / "manifest.json", change)
    with pytest.raises(DataError, match=rf"^{dataset_copy}/records.*{problem}"):
        load(dataset_copy / "records")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"5"])
def test_manifest_that_is_not_json_is_named(dataset_copy: Path, content: bytes) -> None:
    (dataset_copy / "records" / "manifest.json").write_bytes(content)
    with pytest.raises(DataError, match=r"manifest\.json: .*`orchestrator data prepare` writes it again"):
        load(dataset_copy / "records")


def test_training_names_a_short_shard_in_one_line(dataset_copy: Path) -> None:
    os.truncate(dataset_copy / "records" / "train-00001-of-00004", 9)
    values: dict[str, Any] = {"dataset": "imagenet", "image_size": 32, "channels": 3, "epochs": 1, "batch_size": 4}
    output = launcher.train(dataset_copy / "training", 1, data=str(dataset_copy / "records"), **values)
    assert output.returncode != 0
    named = r"^\[0\]<stderr>:rank 0: .*train-00001-of-00004: 9 bytes instead of"
    assert re.search(named, output.stdout, re.MULTILINE), output.stdout
    assert "DataError" not in output.stdout


def test_training_names_rank_and_step_of_a_damaged_record(dataset_copy: Path) -> None:
    damage(dataset_copy / "records" / "train-00003-of-00004", 60)  # a sample of the second half belongs to rank 1
    values: dict[str, Any] = {"dataset": "imagenet", "image_size": 32, "channels": 3, "epochs": 1, "batch_size": 4}
    output = launcher.train(dataset_copy / "training", 2, data=str(dataset_copy / "records"), **values)
    assert output.returncode != 0
    location = "train-00003-of-00004, record at byte 0: "
    message = rf"^\[1\]<stderr>:rank 1 after step \d \(epoch 1\): 1 of 4 samples cannot be read: .*{location}"
    assert re.search(message, output.stdout, re.MULTILINE), output.stdout
