"""Conversion of class folders into shards by all ranks, also after an interruption."""

import re
import sys
from pathlib import Path

import tensorflow as tf

from orchestrator.schema import Manifest, PrepareConfig
from orchestrator.trainer.data import manifests, tfrecord_format
from tests.trainer import launcher
from tests.trainer.class_folders import damage, folders, jpeg, prepare, prepared, unreadable

KILLED_AFTER_A_SHARD = """
import os, pathlib
from orchestrator.trainer.data import shard_writer, prepare
note = shard_writer._write_description
def killed(*shard):
    note(*shard)
    os.kill(os.getpid(), 9)
shard_writer._write_description = killed
prepare.main(pathlib.Path({!r}))
"""


def test_every_image_becomes_one_record_with_published_fields(dataset: Path) -> None:
    shards = prepared(dataset)
    assert (shards.images, shards.shards, shards.written, shards.unreadable) == ({"train": 40, "val": 9}, 6, 6, [])
    names = []
    for path in sorted((dataset / "records").glob("train-*-of-00004")):
        for record in tf.data.TFRecordDataset(str(path)):
            example = tf.train.Example.FromString(record.numpy()).features.feature
            name = example["image/filename"].bytes_list.value[0].decode()
            number = int(name.removesuffix(".JPEG"))
            assert example["image/encoded"].bytes_list.value[0] == jpeg(number)
            assert example["image/class/label"].int64_list.value[0] == number % 5 + 1
            assert [example[f"image/{side}"].int64_list.value[0] for side in ("height", "width")] == [24, 32]
            names.append(number)
    assert sorted(names) == list(range(40))
    assert names != sorted(names)


def test_manifest_describes_every_shard(dataset: Path) -> None:
    manifest = Manifest.model_validate_json((dataset / "records" / "manifest.json").read_text())
    assert manifest.label_base == 1
    for split, count in (("train", 4), ("val", 2)):
        shards = manifest.shards[split]
        assert [shard.name for shard in shards] == [
            tfrecord_format.name(split, number, count) for number in range(count)
        ]
        assert all(manifests.is_whole(dataset / "records", shard) for shard in shards)
        assert [shard.lengths for shard in shards] == [
            tfrecord_format.lengths(dataset / "records" / s.name) for s in shards
        ]


def test_rank_0_prints_the_progress_of_all_ranks(dataset: Path) -> None:
    output = re.findall(r"shards (\d)/6, ([\d,]+) images, \d+ images/s", (dataset / "run" / "log").read_text())
    assert output[-1] == ("6", "49")


def test_complete_shards_are_not_written_again(dataset_copy: Path) -> None:
    records = dataset_copy / "records"
    before = (records / "manifest.json").read_bytes()
    (records / "manifest.json").unlink()
    (records / "train-00002-of-00004").unlink()
    damaged = records / "val-00001-of-00002"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    (records / ".train-00001-of-00004.part").write_bytes(b"of a run that was killed")
    times = {path.name: path.stat().st_mtime_ns for path in records.iterdir()}
    output = prepare(
        dataset_copy, dataset_copy / "folders", ranks=1, shards={"train": 1, "val": 1}
    )  # fewer ranks would write fewer
    assert "shards 6/6, " in output
    assert prepared(dataset_copy).written == 2
    assert (records / "manifest.json").read_bytes() == before
    touched = {path.name for path in records.iterdir() if times.get(path.name) != path.stat().st_mtime_ns}
    names = ("train-00002-of-00004", "val-00001-of-00002")
    assert touched == {"manifest.json", *names, *(f"{name}.json" for name in names)}


def test_killed_preparation_is_continued(tmp_path: Path) -> None:
    """The kill comes as soon as the first shard is complete."""
    source = folders(tmp_path / "folders")
    program = KILLED_AFTER_A_SHARD.format(str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    values = {"source": str(source), "target": str(tmp_path / "records"), "shards": {"train": 4, "val": 2}}
    PrepareConfig(**values, skip_unreadable=False, threads=1).write(tmp_path / "run" / "config.json")
    assert launcher.launch(tmp_path / "run", [sys.executable, "-c", program], 1).returncode != 0
    assert not (tmp_path / "records" / "manifest.json").exists()
    prepare(tmp_path, source, ranks=1)
    assert prepared(tmp_path).written == 5


def test_undecodable_images_are_named_or_skipped(tmp_path: Path) -> None:
    source = unreadable(tmp_path)
    output = prepare(tmp_path, source, ranks=1, fails=True)
    assert "2 files cannot be read (replace or remove them, or use --skip-unreadable)" in output
    assert all(f"unreadable: {source}/{name}: " in output for name in ("train/n1/bad.JPEG", "train/n2/worse.JPEG"))
    assert not (tmp_path / "records" / "manifest.json").exists()
    prepare(tmp_path, source, ranks=1, skip_unreadable=True)
    shards = prepared(tmp_path)
    assert (shards.images, len(shards.unreadable)) == ({"train": 12, "val": 4}, 2)


def test_provided_shards_are_described_and_checked(dataset_copy: Path) -> None:
    records = dataset_copy / "records"
    for path in records.glob("*.json"):
        path.unlink()
    prepare(dataset_copy, records, ranks=1)
    assert (prepared(dataset_copy).written, prepared(dataset_copy).images) == (6, {"train": 40, "val": 9})
    assert len(list(records.glob("*.json"))) == 7
    damage(records / "train-00000-of-00004", 60)
    output = prepare(dataset_copy, records, ranks=1, fails=True)
    assert "1 files cannot be read (provide these shards again)" in output
    assert f"damaged: {records}/train-00000-of-00004: " in output


def test_full_disk_is_named_and_keeps_no_part_of_a_shard(tmp_path: Path) -> None:
    source = folders(tmp_path / "folders")
    output = prepare(tmp_path, source, ranks=1, fails=True, largest_file=1000)
    assert re.search(r"rank 0 on \S+: .*/train-00000-of-00004 cannot be written: .*File too large", output)
    assert "orchestrator/trainer/data/prepare.py" not in output
    assert list((tmp_path / "records").iterdir()) == []
    prepare(tmp_path, source, ranks=1)
    assert prepared(tmp_path).written == 6


def test_folder_named_like_an_image_fails_in_one_line(tmp_path: Path) -> None:
    source = folders(tmp_path / "folders")
    (source / "train" / "n1" / "another.JPEG").mkdir()
    output = prepare(tmp_path, source, ranks=1, fails=True)
    assert re.search(r"rank 0 on \S+: .*another\.JPEG: not a regular file, expected an image", output)
    assert "orchestrator/trainer/data/prepare.py" not in output
