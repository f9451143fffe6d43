"""Results of whole training runs by horovodrun with two ranks in this container."""

import csv
import re
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from orchestrator.schema import Communication
from orchestrator.trainer import stop_conditions
from orchestrator.trainer.data import batches
from orchestrator.trainer.rank_setup import Trainer
from tests import samples
from tests.trainer import launcher
from tests.trainer.launcher import results


def train(directory: Path, ranks: int, **changes: Any) -> Path:
    """Run to a successful end and return the directory."""
    output = launcher.train(directory, ranks, **changes)
    assert output.returncode == 0, output.stdout
    return directory


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run two epochs on two ranks."""
    return train(tmp_path_factory.mktemp("run") / "first", ranks=2)


def test_results_describe_model_and_ranks(trained: Path) -> None:
    written = results(trained)
    assert (written.world.size, len(written.world.hosts), written.ended) == (2, 2, "epochs")
    assert written.effective_batch_size == 32
    assert written.peak_learning_rate == pytest.approx(0.02)
    assert {"tensorflow", "keras", "horovod", "python", "orchestrator"} == set(written.versions)


def test_epochs_train_full_batches_and_evaluate_every_image(trained: Path) -> None:
    epochs = results(trained).epochs
    assert [(epoch.epoch, epoch.steps) for epoch in epochs] == [(1, 2), (2, 4)]  # 70 images, 2 ranks x 16: two steps
    assert [(epoch.train.images, epoch.test.images) for epoch in epochs] == [(64, 9)] * 2
    assert all(len(epoch.images_per_second_per_rank) == len(epoch.peak_memory_per_rank) == 2 for epoch in epochs)
    assert all(min(epoch.peak_memory_per_rank) > 100 << 20 for epoch in epochs)


def test_csv_equals_results(trained: Path) -> None:
    with (trained / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["train_loss"]) for row in rows] == [epoch.train.loss for epoch in results(trained).epochs]


def test_every_epoch_writes_a_checkpoint(trained: Path) -> None:
    files = sorted(path.name for path in (trained / "checkpoints").iterdir())
    assert files == ["epoch-0001", "epoch-0002", "index.json"]
    names = [name for name, _ in tf.train.list_variables(str(trained / "checkpoints" / "epoch-0002" / "state"))]
    assert any(name.startswith("model/") for name in names)
    assert any(name.startswith("optimizer/") for name in names)


def test_only_rank_0_prints_progress(trained: Path) -> None:
    output = (trained / "log").read_text()
    assert output.count("resnet20 (") == 1
    assert "[0]<stdout>:epoch 2/2" in output


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repeat the run with three steps, one less than its two epochs have."""
    return train(tmp_path_factory.mktemp("run") / "again", ranks=2, steps=3)


def test_same_seed_gives_bitwise_equal_weights(trained: Path, three_steps: Path) -> None:
    assert results(three_steps).epochs[0].weights_sha256 == results(trained).epochs[0].weights_sha256


def test_run_stops_after_steps(three_steps: Path) -> None:
    assert (results(three_steps).ended, [epoch.steps for epoch in results(three_steps).epochs]) == (
        "steps",
        [2, 3],
    )


@pytest.mark.parametrize("engine", ["ours", "horovod-tensorflow"])
@pytest.mark.parametrize(("until", "ended", "epochs"), [("top1=0.000001", "until", 1), ("top1=1", "epochs", 2)])
def test_run_ends_with_the_epoch_that_reaches_the_accuracy(
    tmp_path: Path, until: str, ended: str, epochs: int, engine: str
) -> None:
    """A network sometimes guesses a few of these labels correctly, never all."""
    written = results(train(tmp_path / "run", ranks=2, until=until, engine=engine))
    assert (written.ended, len(written.epochs)) == (ended, epochs)
    if engine == "ours":
        assert "top-1" in (tmp_path / "run" / "log").read_text().splitlines()[-2]


LIMITS = [("ours", 1, 5, 5), ("ours", 2, 5, 5), ("ours", 2, 1, 1), ("ours", 2, 64, 9), ("horovod-tensorflow", 2, 1, 1)]


@pytest.mark.parametrize(("engine", "ranks", "limit", "evaluated"), LIMITS)
def test_run_evaluates_the_first_test_samples(
    tmp_path: Path, engine: str, ranks: int, limit: int, evaluated: int
) -> None:
    run = results(train(tmp_path / "run", ranks=ranks, epochs=1, engine=engine, test_samples=limit))
    assert [epoch.test.images for epoch in run.epochs] == [evaluated]
    assert run.config.test_samples == limit
    assert f"70 training and {evaluated} test images" in (tmp_path / "run" / "log").read_text()


def test_results_describe_communication(trained: Path) -> None:
    written = results(trained)
    assert written.communication == Communication(
        controller="gloo",
        transport="gloo",
        cycle_time=1.0,
        fusion_threshold=128.0,
        autotune=False,
        route="exchange",
        groups=1,
        bytes_per_step=4 * written.parameters,
    )


def test_several_passes_make_one_update(tmp_path: Path) -> None:
    log = tmp_path / "autotune.csv"
    options = ["--cycle-time-ms", "2.5", "--fusion-threshold-mb", "16", "--autotune", "--autotune-log-file", str(log)]
    changes: dict[str, Any] = {"batch_size": 8, "backward_passes_per_step": 2, "compression": "bf16"}
    written = results(train(tmp_path / "run", ranks=2, options=options, **changes))
    assert [(epoch.steps, epoch.train.images, epoch.test.images) for epoch in written.epochs] == [
        (2, 64, 9),
        (4, 64, 9),
    ]
    assert written.effective_batch_size == 32
    assert written.peak_learning_rate == pytest.approx(0.04)
    assert written.communication
    used = written.communication
    assert (used.cycle_time, used.fusion_threshold, used.autotune) == (2.5, 16.0, True)
    assert (used.route, used.bytes_per_step) == ("exchange", 2 * written.parameters)
    assert log.read_text().startswith("hierarchical_allreduce,")


def test_xla_gives_the_same_losses(tmp_path: Path) -> None:
    plain, compiled = (results(train(tmp_path / str(xla), ranks=1, epochs=1, xla=xla)) for xla in (False, True))
    assert compiled.config.xla
    assert compiled.epochs[0].weights_sha256 != plain.epochs[0].weights_sha256  # other sums, so it was compiled
    assert compiled.epochs[0].train.loss == pytest.approx(plain.epochs[0].train.loss, rel=1e-2)
    assert compiled.epochs[0].test.loss == pytest.approx(plain.epochs[0].test.loss, rel=1e-1)


@pytest.mark.parametrize(("steps", "step", "ended", "epochs"), [(4, 4, "steps", 1), (5, 4, None, 2), (99, 4, None, 7)])
def test_no_epoch_starts_once_steps_are_done(steps: int, step: int, ended: str | None, epochs: int) -> None:
    config = samples.train_config(steps=steps, epochs=7)
    nothing = batches.Split(0, lambda index, seed: (index, seed), 1)
    trainer = Trainer(config, keras.Model(), keras.optimizers.SGD(), nothing, nothing, 16, 4, epoch=1, step=step)
    assert (stop_conditions.stop_reason(trainer, stop_conditions.StopVotes(0, 0, 0)), trainer.epochs) == (ended, epochs)


def test_nonfinite_loss_fails_and_keeps_earlier_epochs(tmp_path: Path) -> None:
    """Each step multiplies every weight: values overflow after a few epochs of two steps."""
    run = tmp_path / "run"
    output = launcher.train(run, ranks=2, epochs=20, weight_decay=300.0, milestones=[])
    before = results(run)
    assert output.returncode != 0
    assert 0 < len(before.epochs) < 20
    assert before.ended is None
    location = (
        rf"after step \d+ \(epoch {len(before.epochs) + 1}\): use a smaller --learning-rate in a new run(?:, or .+)?"
    )
    printed = re.findall(
        rf"^\[(\d)\]<stderr>:(?:training|test) loss is (?:nan|inf) {location}$", output.stdout, re.MULTILINE
    )
    assert sorted(printed) == ["0", "1"]
    assert not re.search(r"^\[\d\]<stderr>:Traceback", output.stdout, re.MULTILINE)
