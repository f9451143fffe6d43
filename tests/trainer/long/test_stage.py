"""Staging by ranks that simulate nodes, each with its own directory as a node's disk."""

import re
import sys
from pathlib import Path

import pytest

from orchestrator.schema import MANIFEST, StageConfig, Staged
from tests import samples
from tests.trainer import launcher
from tests.trainer.class_folders import LARGEST_FILE, damage

# Start a program whose rank N uses DIRECTORY/nodeN as its disk.
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
    """Stage ``directory``/records onto ``ranks`` nodes and return the log."""
    run = directory / "stage"
    run.mkdir(exist_ok=True)
    StageConfig(sources=[str(directory / "records")], head_apart=head_apart, threads=2).write(run / "config.json")
    output = launcher.launch(run, program(directory, run, before + STAGE), ranks)
    assert (output.returncode != 0) == fails, output.stdout
    return output.stdout


def program(directory: Path, run: Path, words: str) -> list[str]:
    return [sys.executable, "-c", ON_A_NODE + words, str(directory), str(run)]


def staged(directory: Path) -> Staged:
    return Staged.model_validate_json((directory / "stage" / "staged.json").read_text())


def contents(directory: Path) -> dict[str, bytes]:
    """Return the contents of the shards and of the manifest."""
    names = [path for path in directory.iterdir() if not path.name.endswith(".json") or path.name == "manifest.json"]
    return {path.name: path.read_bytes() for path in names}


@pytest.mark.parametrize(("ranks", "head_apart"), [(2, False), (3, True)])
def test_every_node_gets_every_shard(dataset_copy: Path, ranks: int, head_apart: bool) -> None:
    """Copy in pieces smaller than a shard, and by fewer ranks at a time than there are shards."""
    output = stage(dataset_copy, ranks, head_apart=head_apart, before="ring_copy.PIECES = 1000\n")
    for rank in range(ranks):
        assert contents(dataset_copy / f"node{rank}" / "records") == contents(dataset_copy / "records")
    result = staged(dataset_copy)
    assert (result.shards, result.copied) == (6, [result.bytes] * ranks)
    assert sum(result.read[head_apart:]) == result.bytes  # every byte was read from the shared storage once
    assert result.read[0] == result.bytes if head_apart else 0 < result.read[0] < result.bytes
    assert re.search(r"shards 6/6, \d+ MB, \d+ MB/s", output)


def test_only_missing_and_damaged_shards_are_copied(dataset_copy: Path) -> None:
    stage(dataset_copy, 1)
    untouched, damaged = (dataset_copy / "node0" / "records" / f"train-0000{number}-of-00004" for number in (0, 1))
    before = untouched.stat().st_mtime_ns
    damage(damaged, 70)
    stage(dataset_copy, 2)
    assert (
        contents(dataset_copy / "node0" / "records")
        == contents(dataset_copy / "node1" / "records")
        == contents(dataset_copy / "records")
    )
    assert untouched.stat().st_mtime_ns == before
    assert staged(dataset_copy).copied == [damaged.stat().st_size, staged(dataset_copy).bytes]


def test_damaged_source_shard_is_named_and_leaves_no_manifest(dataset_copy: Path) -> None:
    damage(dataset_copy / "records" / "val-00000-of-00002", 70)
    output = stage(dataset_copy, 2, fails=True)
    assert f"{dataset_copy}/records/val-00000-of-00002: damaged: its SHA-256 is not that of its manifest" in output
    assert not (dataset_copy / "node0" / "records" / MANIFEST).exists()


def test_full_disks_are_named_before_copying(dataset_copy: Path) -> None:
    output = stage(dataset_copy, 2, fails=True, before=NO_ROOM)
    assert re.search(r"too little space: \S+ needs [\d.]+ GiB and has [\d.]+ GiB; \S+ needs", output)
    assert list((dataset_copy / "node0" / "records").iterdir()) == []


def test_disk_that_fails_is_named_and_keeps_no_part_of_a_shard(dataset_copy: Path) -> None:
    output = stage(dataset_copy, 1, fails=True, before=LARGEST_FILE.format(1000))
    assert re.search(r"rank 0 on \S+: .*/node0/records/\S+ cannot be written: File too large", output)
    assert "orchestrator/trainer/data/stage.py" not in output
    assert list((dataset_copy / "node0" / "records").iterdir()) == []


def train(directory: Path, name: str) -> str:
    """Train an epoch on two ranks and return the digest of the weights."""
    run = directory / name
    run.mkdir()
    values = {"dataset": "imagenet", "image_size": 32, "channels": 3, "epochs": 1, "batch_size": 4, "augment": True}
    samples.train_config(data=str(directory / "records"), learning_rate=0.01, **values).write(run / "config.json")
    output = launcher.launch(run, program(directory, run, TRAIN), 2)
    assert output.returncode == 0, output.stdout
    epoch = launcher.results(run).epochs[0]
    assert (epoch.train.images, epoch.test.images) == (40, 9)
    return epoch.weights_sha256


def test_training_reads_staged_data_once_every_rank_has_it(dataset_copy: Path) -> None:
    stage(dataset_copy, 1)
    from_shared = train(dataset_copy, "first")  # only rank 0 has a dataset_copy
    assert launcher.results(dataset_copy / "first").data_path == str(dataset_copy / "records")
    assert (
        f"reading imagenet from shared storage: {dataset_copy}/records" in (dataset_copy / "first" / "log").read_text()
    )
    stage(dataset_copy, 2)
    assert train(dataset_copy, "second") == from_shared
    assert launcher.results(dataset_copy / "second").data_path == str(dataset_copy / "node0" / "records")
    assert (
        f"reading imagenet from local disk: {dataset_copy}/node0/records"
        in (dataset_copy / "second" / "log").read_text()
    )


def test_invalid_manifest_ends_staging_in_one_line(dataset_copy: Path) -> None:
    (dataset_copy / "records" / MANIFEST).write_text('{"label_base": 7, "shards": {}}')
    output = stage(dataset_copy, 1, fails=True)
    problem = r"manifest\.json: label_base: 7: .*`orchestrator data prepare` writes it again"
    assert re.search(rf"rank 0 on \S+: .*{problem}", output)
    assert "orchestrator/trainer/data/stage.py" not in output
