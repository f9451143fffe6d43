"""A whole training run, by horovodrun with two ranks in this container: what it leaves behind."""

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from orchestrator.schema import Results
from tests import samples

HOROVODRUN = Path(sys.executable).with_name("horovodrun")


def train(directory: Path, ranks: int, **changes: Any) -> Path:
    """Train resnet20 on 70 images of MNIST and 9 held out; returns the run's directory."""
    directory.mkdir()
    data = samples.mnist(directory / "data", {"train": 70, "t10k": 9})
    samples.train_config(data=str(data), batch_size=16, learning_rate=0.01, **changes).write(directory / "config.json")
    launcher = [str(HOROVODRUN), "--gloo", "-np", str(ranks), "-H", f"localhost:{ranks}", "--disable-cache"]
    command = [*launcher, sys.executable, "-m", "orchestrator.trainer.train", str(directory)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert finished.returncode == 0, finished.stdout
    (directory / "log").write_text(finished.stdout)
    return directory


def results(directory: Path) -> Results:
    return Results.model_validate_json((directory / "results.json").read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs on two ranks."""
    return train(tmp_path_factory.mktemp("run") / "first", ranks=2)


def test_results_say_what_was_trained_on_how_many_ranks(trained: Path) -> None:
    found = results(trained)
    assert (found.world.size, len(found.world.hosts), found.ended) == (2, 2, "epochs")
    assert (found.effective_batch_size, found.peak_learning_rate) == (32, pytest.approx(0.02))
    assert {"tensorflow", "keras", "horovod", "python", "orchestrator"} == set(found.versions)


def test_every_epoch_counts_full_batches_in_training_and_every_image_in_evaluation(trained: Path) -> None:
    epochs = results(trained).epochs
    assert [(epoch.epoch, epoch.steps) for epoch in epochs] == [(1, 2), (2, 4)]  # 70 images, 2 ranks x 16: two steps
    assert [(epoch.train.images, epoch.test.images) for epoch in epochs] == [(64, 9)] * 2
    assert all(len(epoch.images_per_second_per_rank) == len(epoch.peak_memory_per_rank) == 2 for epoch in epochs)
    assert all(min(epoch.peak_memory_per_rank) > 100 << 20 for epoch in epochs)


def test_the_table_has_a_line_per_epoch_with_the_same_numbers(trained: Path) -> None:
    with (trained / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["train_loss"]) for row in rows] == [epoch.train.loss for epoch in results(trained).epochs]


def test_every_epoch_leaves_a_whole_checkpoint(trained: Path) -> None:
    assert sorted(path.name for path in (trained / "checkpoints").iterdir()) == ["epoch-0001", "epoch-0002"]
    names = [name for name, _ in tf.train.list_variables(str(trained / "checkpoints" / "epoch-0002" / "state"))]
    assert any(name.startswith("model/") for name in names)
    assert any(name.startswith("optimizer/") for name in names)


def test_rank_0_alone_says_what_happens(trained: Path) -> None:
    said = (trained / "log").read_text()
    assert said.count("resnet20 (") == 1
    assert "[0]<stdout>:epoch 2/2" in said


def test_the_same_seed_on_as_many_ranks_gives_the_same_weights_bit_by_bit(trained: Path, tmp_path: Path) -> None:
    again = train(tmp_path / "again", ranks=2)
    assert [e.weights_sha256 for e in results(again).epochs] == [e.weights_sha256 for e in results(trained).epochs]


def test_a_run_stops_after_the_steps_it_was_given(tmp_path: Path) -> None:
    found = results(train(tmp_path / "run", ranks=1, steps=5, precision="bfloat16"))
    assert (found.ended, [epoch.steps for epoch in found.epochs]) == ("steps", [4, 5])
