"""Metrics and step times of real ranks while they train."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.bottleneck import explain
from orchestrator.schema import Epoch
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.telemetry import snapshots
from tests.samples import train_config
from tests.trainer import launcher

ALIVE = "orchestrator_training_world_size"  # exported until the rank ends, unlike its last scores
LATE_SECONDS = 1.0
SLOW_RANK = f"""
import statistics, time
import horovod.tensorflow as hvd, tensorflow as tf
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.telemetry.step_times import exchange
from tests import samples
allreduce.GROUP_BYTES = 4
allreduce.begin()
tf.config.experimental.enable_op_determinism()

def work(x):
    time.sleep({LATE_SECONDS} if hvd.rank() == 1 else 0.0)
    return x

@tf.function
def step(x):
    late = tf.ensure_shape(tf.numpy_function(work, [x], tf.float32), [3])
    return allreduce.allreduce_mean([x + 1.0, late, x + 2.0], samples.train_config())

measured = []
for _ in range(5):
    averages, times = step(tf.fill([3], float(hvd.rank())))
    measured.append(exchange(times.numpy()[None]))
hidden, waited = map(statistics.median, zip(*measured))
means = [mean.numpy().tolist() for mean in averages]
print(f"rank {{hvd.rank()}}: {{means}} hidden {{hidden:.6f}} waited {{waited:.3f}}")
"""


@contextmanager
def watching() -> Iterator[list[str]]:
    """Collect all snapshots that ranks on this machine write, fifty times a second."""
    texts: list[str] = []
    stopped = threading.Event()

    def collect() -> None:
        while not stopped.wait(0.02):
            texts.extend(content.decode() for content in snapshots.live(snapshots.DIRECTORY))

    watcher = threading.Thread(target=collect)
    watcher.start()
    yield texts
    stopped.set()
    watcher.join()


def samples(text: str) -> dict[tuple[str, str, str], float]:
    """Return values by name, rank, and the label that is not the run's."""
    every = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {
        (sample.name, sample.labels["rank"], sample.labels.get("part") or sample.labels.get("split", "")): sample.value
        for sample in every
        if not sample.name.endswith("_bucket")
    }


def parts(epoch: Epoch) -> "np.ndarray":
    """Return seconds by part and rank."""
    return np.array([epoch.input_seconds, epoch.compute_seconds, epoch.communication_seconds])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, str, str], float]]:
    """Train two ranks in epochs of two steps; return the directory and the last values of each rank."""
    directory = tmp_path_factory.mktemp("run") / "watched"
    with watching() as texts:
        output = launcher.train(directory, ranks=2, epochs=4)
    assert output.returncode == 0, output.stdout
    last: dict[tuple[str, str, str], float] = {}
    for text in texts:
        last.update(samples(text))
    return directory, last


def test_ranks_are_exported_while_they_train(trained: tuple[Path, dict[Any, float]]) -> None:
    _, last = trained
    ranks = {rank for name, rank, _ in last if name == "orchestrator_training_world_size"}
    assert ranks == {"0", "1"}
    assert list(snapshots.DIRECTORY.glob("*.prom")) == []


def test_last_test_score_is_exported(trained: tuple[Path, dict[Any, float]]) -> None:
    directory, last = trained
    test = launcher.results(directory).epochs[-1].test
    for rank in ("0", "1"):
        assert last["orchestrator_training_top1_ratio", rank, "test"] == pytest.approx(test.top1)


def test_step_parts_add_up(trained: tuple[Path, dict[Any, float]]) -> None:
    _, last = trained
    for rank in ("0", "1"):
        whole = last["orchestrator_training_step_seconds_sum", rank, ""]
        pieces = [
            last["orchestrator_training_step_part_seconds_sum", rank, part]
            for part in ("input", "compute", "communication")
        ]
        assert sum(pieces) == pytest.approx(whole)
        assert all(piece > 0 for piece in pieces)


def test_results_hold_mean_times_of_every_rank(trained: tuple[Path, dict[Any, float]]) -> None:
    directory, _ = trained
    epochs = launcher.results(directory).epochs
    assert all(parts(epoch).shape == (3, 2) for epoch in epochs)
    assert all(len(epoch.hidden_communication) == 2 for epoch in epochs)
    assert all(0.0 <= share <= 1.0 for epoch in epochs for share in epoch.hidden_communication)
    for epoch in epochs:
        steps = 1 if epoch.epoch == 1 else 2  # the first step of a run is left out
        assert parts(epoch)[:, 0].sum() * steps <= epoch.seconds * 1.01  # the seconds are those of rank 0


def test_last_line_is_the_bottleneck(trained: tuple[Path, dict[Any, float]]) -> None:
    directory, _ = trained
    output = [line for line in (directory / "log").read_text().splitlines() if line.startswith("[0]<stdout>:")]
    assert output[-1] == f"[0]<stdout>:{explain(launcher.results(directory))}"


def test_one_rank_communicates_nothing(tmp_path: Path) -> None:
    output = launcher.train(tmp_path / "alone", ranks=1)
    assert output.returncode == 0, output.stdout
    epochs = launcher.results(tmp_path / "alone").epochs
    assert [epoch.communication_seconds for epoch in epochs] == [[pytest.approx(0, abs=1e-3)]] * len(epochs)
    assert not any(epoch.hidden_communication for epoch in epochs)


def test_waiting_is_counted_on_the_ranks_that_wait(tmp_path: Path) -> None:
    """The late rank only exchanges gradients, which takes milliseconds, or a few tenths of a second on busy cores.

    It exchanges the others while it works. The late gradient is in neither the first nor the last group.
    """
    program = tmp_path / "slow.py"
    program.write_text(SLOW_RANK)
    output = launcher.launch(tmp_path / "run", [sys.executable, str(program)])
    assert output.returncode == 0, output.stdout
    lines = {line.partition("rank ")[2] for line in output.stdout.splitlines() if "waited" in line}
    waited = {int(line[0]): float(line.rpartition(" ")[2]) for line in lines}
    hidden = {int(line[0]): float(line.split()[-3]) for line in lines}
    assert all("[[1.5, 1.5, 1.5], [0.5, 0.5, 0.5], [2.5, 2.5, 2.5]]" in line for line in lines)
    assert 0 < hidden[1] < LATE_SECONDS
    assert waited[0] > LATE_SECONDS / 2
    assert waited[1] < waited[0] / 2


def test_killed_rank_is_no_longer_exported(tmp_path: Path) -> None:
    """Kill the rank by SIGKILL, as the supervisor's sweep does; no cleanup runs."""
    with watching() as texts:
        trainer = threading.Thread(target=launcher.train, args=(tmp_path / "killed", 1), kwargs={"epochs": 500})
        trainer.start()
        deadline = time.monotonic() + 120
        while not any(ALIVE in text for text in texts) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert any(ALIVE in text for text in texts)
        for pid in ranks_of("killed"):
            os.kill(pid, 9)
        trainer.join(timeout=60)
    assert [content for content in snapshots.live(snapshots.DIRECTORY) if ALIVE.encode() in content] == []


def ranks_of(run: str) -> list[int]:
    """Return the ids of training processes, without their shims."""
    processes = (path for path in Path("/proc").iterdir() if path.name.isdigit())
    mark = "orchestrator.trainer.train\0"
    lines = {int(path.name): _command(path) for path in processes}
    return [pid for pid, line in lines.items() if mark in line and run in line and "horovodrun" not in line]


def _command(path: Path) -> str:
    try:
        return (path / "cmdline").read_text()
    except OSError:
        return ""


def test_reduced_bytes_are_the_size_of_the_gradients() -> None:
    hvd.init()
    assert allreduce.size([tf.TensorShape([3, 4])], train_config()) == 0  # a single rank sends nothing
