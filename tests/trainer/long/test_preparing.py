"""Shards of class folders, made by all ranks: whole, made once, gone on with."""

import re
import sys
from pathlib import Path

import tensorflow as tf

from orchestrator.schema import Manifest, PrepareConfig
from orchestrator.trainer.data import manifests, tfrecord_format
from tests.trainer import launcher
from tests.trainer.preparing import folders, jpeg, prepare, prepared, spoil, unreadable

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


def test_every_image_is_in_one_record_with_the_fields_that_are_widely_used(made: Path) -> None:
    found = prepared(made)
    assert (found.images, found.shards, found.written, found.unreadable) == ({"train": 40, "val": 9}, 6, 6, [])
    names = []
    for path in sorted((made / "records").glob("train-*-of-00004")):
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


def test_the_manifest_describes_every_shard_with_its_checksum(made: Path) -> None:
    manifest = Manifest.model_validate_json((made / "records" / "manifest.json").read_text())
    assert manifest.label_base == 1
    for split, count in (("train", 4), ("val", 2)):
        found = manifest.shards[split]
        assert [shard.name for shard in found] == [
            tfrecord_format.name(split, number, count) for number in range(count)
        ]
        assert all(manifests.is_whole(made / "records", shard) for shard in found)
        assert [shard.lengths for shard in found] == [tfrecord_format.lengths(made / "records" / s.name) for s in found]


def test_both_ranks_say_nothing_and_rank_0_says_how_far_all_are(made: Path) -> None:
    said = re.findall(r"shards (\d)/6, ([\d,]+) images, \d+ images/s", (made / "run" / "log").read_text())
    assert said[-1] == ("6", "49")


def test_what_is_there_and_whole_is_not_made_again_and_the_rest_is(copy: Path) -> None:
    made = copy / "records"
    before = (made / "manifest.json").read_bytes()
    (made / "manifest.json").unlink()
    (made / "train-00002-of-00004").unlink()
    damaged = made / "val-00001-of-00002"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    (made / ".train-00001-of-00004.part").write_bytes(b"of a run that was killed")
    kept = {path.name: path.stat().st_mtime_ns for path in made.iterdir()}
    said = prepare(copy, copy / "folders", ranks=1, shards={"train": 1, "val": 1})  # fewer ranks would make fewer
    assert "shards 6/6, " in said
    assert prepared(copy).written == 2
    assert (made / "manifest.json").read_bytes() == before
    touched = {path.name for path in made.iterdir() if kept.get(path.name) != path.stat().st_mtime_ns}
    names = ("train-00002-of-00004", "val-00001-of-00002")
    assert touched == {"manifest.json", *names, *(f"{name}.json" for name in names)}


def test_a_run_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    """It is killed as soon as its first shard is done."""
    source = folders(tmp_path / "folders")
    program = KILLED_AFTER_A_SHARD.format(str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    values = {"source": str(source), "target": str(tmp_path / "records"), "shards": {"train": 4, "val": 2}}
    PrepareConfig(**values, skip_unreadable=False, threads=1).write(tmp_path / "run" / "config.json")
    assert launcher.launch(tmp_path / "run", [sys.executable, "-c", program], 1).returncode != 0
    assert not (tmp_path / "records" / "manifest.json").exists()
    prepare(tmp_path, source, ranks=1)
    assert prepared(tmp_path).written == 5


def test_images_that_cannot_be_decoded_are_named_and_counted_and_may_be_skipped(tmp_path: Path) -> None:
    source = unreadable(tmp_path)
    said = prepare(tmp_path, source, ranks=1, fails=True)
    assert "2 files cannot be read (replace or remove them, or use --skip-unreadable)" in said
    assert all(f"unreadable: {source}/{name}: " in said for name in ("train/n1/bad.JPEG", "train/n2/worse.JPEG"))
    assert not (tmp_path / "records" / "manifest.json").exists()
    prepare(tmp_path, source, ranks=1, skip_unreadable=True)
    found = prepared(tmp_path)
    assert (found.images, len(found.unreadable)) == ({"train": 12, "val": 4}, 2)


def test_shards_that_the_user_brought_are_described_and_damage_in_them_is_named(copy: Path) -> None:
    brought = copy / "records"
    for path in brought.glob("*.json"):
        path.unlink()
    prepare(copy, brought, ranks=1)
    assert (prepared(copy).written, prepared(copy).images) == (6, {"train": 40, "val": 9})
    assert len(list(brought.glob("*.json"))) == 7
    spoil(brought / "train-00000-of-00004", 60)
    said = prepare(copy, brought, ranks=1, fails=True)
    assert "1 files cannot be read (bring these shards again)" in said
    assert f"damaged: {brought}/train-00000-of-00004: " in said


def test_a_folder_in_place_of_an_image_ends_preparing_in_one_line(tmp_path: Path) -> None:
    source = folders(tmp_path / "folders")
    (source / "train" / "n1" / "another.JPEG").mkdir()
    said = prepare(tmp_path, source, ranks=1, fails=True)
    assert re.search(r"rank 0: .*another\.JPEG: expected a JPEG, found another thing than a file", said)
    assert "orchestrator/trainer/data/prepare.py" not in said
