"""`orchestrator data`: input that is refused before a node is contacted, and the runs that it starts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.cli import data_tables
from orchestrator.errors import ConfigError
from orchestrator.runs import datasets
from orchestrator.runs.datasets import FoundDataset
from orchestrator.schema import Prepared, Staged
from tests import builders, samples
from tests.unit.conftest import Cli
from tests.unit.trainer.test_inspect_tfrecord import WHOLE, write


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    return samples.imagenet(tmp_path / "images", {"train/n/a.jpg": samples.JPEG, "val/n/a.jpg": samples.JPEG})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["prepare"], "train.dataset: missing: shards are made of imagenet"),
        (["prepare", "mnist"], "train.dataset: mnist: is read into memory whole: shards are made of imagenet"),
        (["stage", "mnist"], "train.dataset: mnist: is read into memory whole: shards are made of imagenet"),
        (["stage", "imagnet"], "train.dataset: 'imagnet' is unknown: shards are made of imagenet"),
        (["stage", "--data", "images"], "train.dataset: missing: shards are made of imagenet"),
        (["prepare", "imagenet"], "imagenet cannot be downloaded without an account: pass its directory"),
        (["prepare", "imagenet", "--data", "missing"], "train.data: missing: no such directory"),
        (["stage", "imagenet", "--data", "missing"], "train.data: missing: no such directory"),
        (
            ["prepare", "imagenet", "--data", "images", "--np", "3"],
            "launch.np: 3 ranks asked for, the cluster has 1 to 2",
        ),
    ],
)
@pytest.mark.usefixtures("folders")
def test_unusable_input_ends_with_2_before_contacting_a_node(cli: Cli, arguments: list[str], problem: str) -> None:
    builders.deployed(nodes=2)
    finished = cli("data", *arguments)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert problem in finished.stderr


@pytest.mark.parametrize("words", [["prepare", "imagenet", "--data", "images"], ["stage"]])
@pytest.mark.usefixtures("folders")
def test_missing_cluster_ends_with_1(cli: Cli, words: list[str]) -> None:
    finished = cli("data", *words)
    assert finished.returncode == 1
    assert "error: cluster 'default' is not deployed" in finished.stderr


@pytest.mark.parametrize(
    "words",
    [["train", "lenet", "--dataset", "mnist"], ["data", "prepare", "imagenet", "--data", "images"], ["data", "stage"]],
)
@pytest.mark.usefixtures("folders")
def test_trainer_is_refused_on_nodes_with_another_framework(cli: Cli, words: list[str]) -> None:
    state_dir = builders.deployed(nodes=2)
    record = builders.read_record(state_dir)
    state.write(state_dir, record.model_copy(update={"config": {**record.config, "framework": "pytorch"}}))
    finished = cli(*words)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "framework: the nodes of cluster 'default' have pytorch, the trainer needs tensorflow" in finished.stderr
    assert "`orchestrator deploy --framework tensorflow` changes them" in finished.stderr


@pytest.mark.usefixtures("folders")
def test_engine_is_refused_on_nodes_without_its_framework(cli: Cli) -> None:
    builders.read_record(builders.deployed(nodes=2))
    words = ("train", "lenet", "--dataset", "mnist", "--no-augment", "--engine")
    finished = cli(*words, "torch-ddp")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "framework: the nodes of cluster 'default' have tensorflow, engine torch-ddp needs both" in finished.stderr
    assert "`orchestrator deploy --framework both` changes them" in finished.stderr
    assert "needs both" not in cli(*words, "single").stderr


def dataset_at(directory: Path) -> FoundDataset:
    dataset = datasets.find("imagenet", directory, lambda text: None)
    assert dataset
    return dataset


def test_shards_go_next_to_images_and_existing_shards_stay(folders: Path, tmp_path: Path) -> None:
    images, brought = dataset_at(folders), dataset_at(write(tmp_path / "shards", WHOLE))
    assert images.records == f"{images.remote}-records"
    assert brought.records == brought.remote


@pytest.mark.parametrize(
    ("train", "val", "gib", "ranks", "counts"),
    [
        (1_281_167, 50_000, 144, 8, {"train": 1109, "val": 44}),
        (100_000, 5_000, 1, 16, {"train": 16, "val": 16}),
        (100, 3, 0.01, 8, {"train": 8, "val": 3}),
    ],
)
def test_shards_have_128_mib_and_at_least_one_per_rank(
    train: int, val: int, gib: float, ranks: int, counts: dict[str, int]
) -> None:
    dataset = FoundDataset("imagenet", Path(), [], train, val, "")
    dataset.__dict__["size"] = int(gib * 2**30)  # as if the inspection had found it
    assert dataset.shard_counts(ranks) == counts


def test_data_run_has_one_slot_per_node() -> None:
    cluster = builders.cluster(nodes=3, slots=4).with_one_slot()
    assert [node.slots for node in cluster.nodes.values()] == [1, 1, 1]


def test_missing_shard_in_a_directory_is_refused(tmp_path: Path) -> None:
    (write(tmp_path / "shards", WHOLE) / "train-00000-of-00002").unlink()
    with pytest.raises(ConfigError, match="train-00000-of-00002 is missing"):
        dataset_at(tmp_path / "shards")


def test_report_shows_written_and_skipped_images(capsys: pytest.CaptureFixture[str]) -> None:
    values: dict[str, Any] = {
        "directory": "/shared/data/x-records",
        "images": {"train": 1234, "val": 20},
        "bytes": 13_100_000,
    }
    left_out = ["a.JPEG: no image"]
    data_tables.prepared(Prepared(**values, shards=6, written=2, unreadable=left_out, seconds=1.5))
    output = capsys.readouterr().out
    assert "1,234 train and 20 val images in 6 shards, 13.1 MB: /shared/data/x-records" in output
    assert "2 shards were written in 1.5 s" in output
    assert "left out: a.JPEG: no image" in output


def test_report_shows_data_of_every_node(capsys: pytest.CaptureFixture[str]) -> None:
    values = {
        "directories": ["/d"],
        "hosts": ["a", "b"],
        "shards": 3,
        "bytes": 9,
        "read": [0, 5_000_000],
        "copied": [0, 9_000_000],
        "seconds": 1,
    }
    data_tables.staged(Staged.model_validate_json(json.dumps(values)))
    output = capsys.readouterr().out
    assert "3 shards, 0.0 MB, on every node in 1.0 s:\n  /d\n" in output
    assert re.search(r"b +9\.0 MB +5\.0 MB", output)
