"""Staging, by ranks that stand for nodes: each has a directory of its own for what a node has on its disk."""

import re
import sys
from pathlib import Path

import pytest

from orchestrator.schema import MANIFEST, StageConfig, Staged
from tests import samples
from tests.trainer import launcher
from tests.trainer.preparing import spoil

# Begins a program whose rank N has DIRECTORY/nodeN for its disk.
ON_A_NODE = """
import os, pathlib, sys
from orchestrator.trainer.data import ring_copy, local_copy, stage
from orchestrator.trainer import train
directory, run = map(pathlib.Path, sys.argv[1:])
local_copy.LOCAL = directory / ("node" + os.environ["HOROVOD_RANK"])
"""
STAGE = "stage.main(run)\n"
TRAIN = "train.main(run)\n"
NO_ROOM = "stage.SPARE = 1 << 60\n"


def stage(directory: Path, ranks: int, fails: bool = False, head_apart: bool = False, before: str = "") -> str:
    """Stage ``directory``/records onto so many nodes; returns the log."""
    run = directory / "stage"
    run.mkdir(exist_ok=True)
    StageConfig(sources=[str(directory / "records")], head_apart=head_apart, threads=2).write(run / "config.json")
    said = launcher.launch(run, program(directory, run, before + STAGE), ranks)
    assert (said.returncode != 0) == fails, said.stdout
    return said.stdout


def program(directory: Path, run: Path, words: str) -> list[str]:
    return [sys.executable, "-c", ON_A_NODE + words, str(directory), str(run)]


def staged(directory: Path) -> Staged:
    return Staged.model_validate_json((directory / "stage" / "staged.json").read_text())


def contents(directory: Path) -> dict[str, bytes]:
    """Of the shards and the manifest."""
    names = [path for path in directory.iterdir() if not path.name.endswith(".json") or path.name == "manifest.json"]
    return {path.name: path.read_bytes() for path in names}


@pytest.mark.parametrize(("ranks", "head_apart"), [(2, False), (3, True)])
def test_every_node_gets_every_shard_as_it_is(copy: Path, ranks: int, head_apart: bool) -> None:
    """In pieces smaller than a shard, and by fewer ranks at a time than there are shards."""
    said = stage(copy, ranks, head_apart=head_apart, before="ring_copy.PIECES = 1000\n")
    for rank in range(ranks):
        assert contents(copy / f"node{rank}" / "records") == contents(copy / "records")
    found = staged(copy)
    assert (found.shards, found.copied) == (6, [found.bytes] * ranks)
    assert sum(found.read[head_apart:]) == found.bytes  # every byte crossed the way from the shared storage once
    assert found.read[0] == found.bytes if head_apart else 0 < found.read[0] < found.bytes
    assert re.search(r"shards 6/6, \d+ MB, \d+ MB/s", said)


def test_what_a_node_has_is_not_copied_again_and_what_is_damaged_there_is(copy: Path) -> None:
    stage(copy, 1)
    untouched, damaged = (copy / "node0" / "records" / f"train-0000{number}-of-00004" for number in (0, 1))
    before = untouched.stat().st_mtime_ns
    spoil(damaged, 70)
    stage(copy, 2)
    assert contents(copy / "node0" / "records") == contents(copy / "node1" / "records") == contents(copy / "records")
    assert untouched.stat().st_mtime_ns == before
    assert staged(copy).copied == [damaged.stat().st_size, staged(copy).bytes]


def test_a_shard_that_is_damaged_on_the_shared_storage_is_named_and_leaves_no_manifest(copy: Path) -> None:
    spoil(copy / "records" / "val-00000-of-00002", 70)
    said = stage(copy, 2, fails=True)
    assert f"{copy}/records/val-00000-of-00002: damaged: its SHA-256 is not that of its manifest" in said
    assert not (copy / "node0" / "records" / MANIFEST).exists()


def test_disks_without_room_are_named_before_anything_is_copied(copy: Path) -> None:
    said = stage(copy, 2, fails=True, before=NO_ROOM)
    assert re.search(r"too little room: \S+ needs [\d.]+ GiB and has [\d.]+ GiB; \S+ needs", said)
    assert list((copy / "node0" / "records").iterdir()) == []


def train(directory: Path, name: str) -> str:
    """The weights' digest after an epoch on two ranks, reading from where they find it."""
    run = directory / name
    run.mkdir()
    values = {"dataset": "imagenet", "image_size": 32, "channels": 3, "epochs": 1, "batch_size": 4, "augment": True}
    samples.train_config(data=str(directory / "records"), learning_rate=0.01, **values).write(run / "config.json")
    said = launcher.launch(run, program(directory, run, TRAIN), 2)
    assert said.returncode == 0, said.stdout
    epoch = launcher.results(run).epochs[0]
    assert (epoch.train.images, epoch.test.images) == (40, 9)
    return epoch.weights_sha256


def test_training_reads_what_is_staged_once_every_rank_has_it_and_gets_the_same_weights(copy: Path) -> None:
    stage(copy, 1)
    from_shared = train(copy, "first")  # rank 0 alone has a copy
    assert launcher.results(copy / "first").data_path == str(copy / "records")
    assert f"reading imagenet from shared storage: {copy}/records" in (copy / "first" / "log").read_text()
    stage(copy, 2)
    assert train(copy, "second") == from_shared
    assert launcher.results(copy / "second").data_path == str(copy / "node0" / "records")
    assert f"reading imagenet from local disk: {copy}/node0/records" in (copy / "second" / "log").read_text()


def test_a_manifest_of_another_shape_ends_staging_in_one_line(copy: Path) -> None:
    (copy / "records" / MANIFEST).write_text('{"label_base": 7, "shards": {}}')
    said = stage(copy, 1, fails=True)
    assert re.search(r"rank 0: .*manifest\.json: label_base: 7: .*`orchestrator data prepare` writes it again", said)
    assert "orchestrator/trainer/data/stage.py" not in said
