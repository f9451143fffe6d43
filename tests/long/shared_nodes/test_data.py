"""Shards are prepared on all nodes, staged to each, and read by training, by the installed command."""

from pathlib import Path

import pytest

from tests import noise
from tests.e2e.command import Cli, docker
from tests.long.shared_nodes import CLUSTER, HEAD, WORKER

STAGED = "/var/lib/orchestrator/data"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders of JPEGs of noise: 100 to train on, 20 held out, ten classes."""
    return noise.folders(tmp_path_factory.mktemp("imagenet"), {"train": 100, "val": 20}, classes=10)


TRAIN = ("train", "resnet20", "--dataset", "imagenet", "--image-size", "32", "--epochs", "1", "--batch-size", "8",
         "--data")  # fmt: skip


def train(cli: Cli, images: Path) -> dict[str, object]:
    results: dict[str, object] = cli.json(*TRAIN, str(images), cluster=CLUSTER)
    return results


def test_staging_unprepared_data_is_refused_with_the_command(cli: Cli, images: Path) -> None:
    message = cli("data", "stage", "imagenet", "--data", str(images), code=2, cluster=CLUSTER).stderr
    assert f"{images} is not prepared" in message
    assert "orchestrator data prepare" in message


def test_both_nodes_make_shards_once(cli: Cli, images: Path) -> None:
    words = ("data", "prepare", "imagenet", "--data", str(images))
    first = cli.json(*words, cluster=CLUSTER)
    assert (first["images"], first["shards"], first["written"]) == ({"train": 100, "val": 20}, 4, 4)
    again = cli.json(*words, cluster=CLUSTER)
    assert (again["written"], again["directory"]) == (0, first["directory"])


def test_training_reads_shared_shards_before_they_are_staged(cli: Cli, images: Path) -> None:
    assert str(train(cli, images)["data_path"]).startswith("/shared/data/imagenet-")


def test_shards_are_staged_once_to_every_node(cli: Cli) -> None:
    first = cli.json("data", "stage", cluster=CLUSTER)
    assert (first["hosts"], first["copied"]) == ([HEAD, WORKER], [first["bytes"]] * 2)
    assert sum(first["read"]) == first["bytes"]
    checksums = f"cd {STAGED} && find . -type f -exec sha256sum {{}} + | sort"
    sums = [docker("exec", node, "sh", "-c", checksums) for node in (HEAD, WORKER)]
    assert sums[0] == sums[1]
    assert len(sums[0]) == first["shards"] + 1  # and the manifest
    assert cli.json("data", "stage", cluster=CLUSTER)["copied"] == [0, 0]


def test_training_reads_staged_shards(cli: Cli, images: Path) -> None:
    results = train(cli, images)
    assert str(results["data_path"]).startswith(STAGED)
    assert "reading imagenet from local disk" in cli("logs", cluster=CLUSTER).stdout


def test_node_without_its_copy_sends_all_ranks_to_shared_storage(cli: Cli, images: Path) -> None:
    docker("exec", WORKER, "sh", "-c", f"rm -r {STAGED}/*")
    assert str(train(cli, images)["data_path"]).startswith("/shared/data/imagenet-")
    assert cli.json("data", "stage", cluster=CLUSTER)["copied"][0] == 0


def test_undecodable_image_is_named_and_may_be_skipped(cli: Cli, images: Path) -> None:
    bad = next((images / "train").glob("*/*.JPEG"))
    content = bad.read_bytes()
    words = ("data", "prepare", "imagenet", "--data", str(images))
    bad.write_bytes(content[:200] + content[-2:])  # starts and ends like a JPEG
    result = cli(*words, code=1, cluster=CLUSTER)
    assert f"{bad.parent.name}/{bad.name}: " in result.stdout + result.stderr
    bad.write_bytes(content[:200])
    result = cli(*words, code=2, cluster=CLUSTER)
    assert f"{bad}: truncated JPEG" in result.stderr
    assert "--skip-unreadable leaves out" in result.stderr
    assert len(cli.json(*words, "--skip-unreadable", cluster=CLUSTER)["unreadable"]) == 1
    assert "--on-bad-sample skip" in cli(*TRAIN, str(images), code=2, cluster=CLUSTER).stderr
    results = cli.json(*TRAIN, str(images), "--on-bad-sample", "skip", cluster=CLUSTER)
    assert (results["ended"], results["data_path"].endswith("-records")) == ("epochs", True)
