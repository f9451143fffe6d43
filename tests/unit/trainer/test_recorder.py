"""Metrics of a rank as Prometheus reads them, without TensorFlow."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.schema import StepTimes
from orchestrator.trainer.telemetry import metrics, snapshots
from orchestrator.trainer.telemetry.recorder import Plan, Recorder
from orchestrator.trainer.telemetry.step_times import Exchange, exchange, split_step
from tests import samples

RUN = {"run": "resnet20-mnist-1", "model": "resnet20", "dataset": "mnist", "rank": "1"}


def recorder(directory: Path, **changes: Any) -> Recorder:
    values = {"rank": 1, "world": 2, "batch": 32, "epochs": 2, "steps": 10, "reduced_bytes": 1000, **changes}
    return Recorder(samples.train_config(restarts=3), Plan(**values), directory)


def families(directory: Path) -> dict[str, Metric]:
    (content,) = snapshots.live(directory)
    return {family.name: family for family in text_string_to_metric_families(content.decode())}


def value(directory: Path, name: str, **labels: str) -> float:
    values = [
        sample.value
        for family in families(directory).values()
        for sample in family.samples
        if sample.name == f"orchestrator_training_{name}" and sample.labels == {**RUN, **labels}
    ]
    assert len(values) == 1, name
    return float(values[0])


def slow(steps: int, seconds: float) -> Iterator[int]:
    for number in range(steps):
        time.sleep(seconds)
        yield number


def epoch(record: Recorder, steps: int, seconds: float = 0.02, reducing: float = 0.01) -> None:
    """Record steps, each of which waits for its input as long as it works."""
    for number, _ in enumerate(record.epoch(1, slow(steps, seconds)), 1):
        time.sleep(seconds)
        record.step(number, 0.1, Exchange(waited=reducing))


def test_every_step_of_a_call_counts_as_long_as_their_mean(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        for batch, (completed, steps) in enumerate(((1, 1), (5, 4))):
            for _ in record.epoch(1, [batch]):
                time.sleep(0.04)
                record.step(completed, 0.1, Exchange(waited=0.01), steps)
        record.publish()
        assert value(tmp_path, "step_seconds_count") == 4
        assert 0.04 <= value(tmp_path, "step_seconds_sum") < 0.08
        assert value(tmp_path, "images_total") == 5 * 32
        assert record.times.mean
        assert record.times.mean.communication == pytest.approx(0.01 / 4)


def test_plan_is_exported_before_the_first_step(tmp_path: Path) -> None:
    with recorder(tmp_path):
        assert [value(tmp_path, name) for name in ("world_size", "epochs")] == [2, 2]
        assert value(tmp_path, "batch_size", image_size="28", precision="float32") == 32
        assert value(tmp_path, "restarts_total") == 3
        assert value(tmp_path, "progress_ratio") == 0
        assert value(tmp_path, "start_time_seconds") == pytest.approx(time.time(), abs=60)


def test_resumed_run_starts_with_the_progress_of_the_first(tmp_path: Path) -> None:
    with recorder(tmp_path, steps_before=6) as record:
        assert [value(tmp_path, name) for name in ("start_progress_ratio", "progress_ratio")] == [0.6, 0.6]
        for _ in record.epoch(1, [0]):
            record.step(7, 0.1, Exchange())
        assert [value(tmp_path, name) for name in ("start_progress_ratio", "progress_ratio")] == [0.6, 0.7]


def test_series_are_removed_when_the_rank_ends(tmp_path: Path) -> None:
    def run() -> None:
        with recorder(tmp_path):
            raise SystemExit("loss is nan")

    with pytest.raises(SystemExit):
        run()
    assert list(tmp_path.iterdir()) == []


def test_steps_are_timed_except_the_one_that_traces(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        epoch(record, 5)
        assert value(tmp_path, "images_total") == 5 * 32
        assert value(tmp_path, "reduced_bytes_total") == 5 * 1000
        assert value(tmp_path, "progress_ratio") == 0.5
        assert value(tmp_path, "learning_rate") == 0.1
        assert value(tmp_path, "step_seconds_count") == 4
        assert value(tmp_path, "first_step_seconds") >= 0.04


def test_parts_of_a_step_sum_to_it(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        epoch(record, 5)
        parts = {
            part: value(tmp_path, "step_part_seconds_sum", part=part) for part in ("input", "compute", "communication")
        }
        assert sum(parts.values()) == pytest.approx(value(tmp_path, "step_seconds_sum"))
        assert parts["input"] >= 4 * 0.02
        assert parts["communication"] == pytest.approx(4 * 0.01)
        assert parts["compute"] >= 4 * 0.005
        assert record.times.mean is not None
        assert record.times.mean.input == pytest.approx(parts["input"] / 4)


def test_agreement_between_steps_counts_as_communication(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        for number, _ in enumerate(record.epoch(1, range(3)), 1):
            with record.measure_agreement():
                time.sleep(0.02)
            record.step(number, 0.1, Exchange())
        assert value(tmp_path, "step_part_seconds_sum", part="communication") >= 2 * 0.02


def test_pause_between_steps_counts_for_no_step(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        for number, _ in enumerate(record.epoch(1, range(3)), 1):
            record.step(number, 0.1, Exchange())
            with record.pause():
                time.sleep(0.5)
        assert value(tmp_path, "step_seconds_count") == 2
        assert value(tmp_path, "step_seconds_sum") < 0.5


def test_step_parts_sum_to_the_step_even_if_clocks_jump() -> None:
    assert split_step(1.0, 0.25, 0.5) == StepTimes(0.25, 0.25, 0.5)
    assert split_step(1.0, 0.25, 3600.0) == StepTimes(0.25, 0.0, 0.75)
    assert split_step(1.0, 0.25, -3600.0) == StepTimes(0.25, 0.75, 0.0)


@pytest.mark.parametrize(
    ("ready", "received", "hidden", "waited"),
    [
        ([1.0], [1.5], 0.0, 0.5),
        ([1.0, 2.0, 3.0], [1.25, 2.25, 3.25], 0.5, 0.25),
        ([1.0, 2.0, 3.0], [2.5, 2.75, 4.0], 1.75, 1.0),  # the second waits for the first one
        ([3.0, 1.0, 2.0], [3.25, 5.0, 2.25], 2.0, 2.0),  # in any order; one lasts longer than all others
        ([1.0, 1.0], [1.0, 1.0], 0.0, 0.0),
    ],
)
def test_an_exchange_is_hidden_until_the_last_gradients_are_computed(
    ready: list[float], received: list[float], hidden: float, waited: float
) -> None:
    assert exchange(np.array([[ready, received]])) == (hidden, waited)
    assert exchange(np.array([[ready, received]] * 3)) == (3 * hidden, 3 * waited)


def test_share_of_the_exchange_that_is_hidden_is_of_the_steps_that_count(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        steps = [Exchange(9.0, 0.0), Exchange(1.0, 0.5), Exchange(2.0, 0.5)]
        for number, (measured, _) in enumerate(zip(steps, record.epoch(1, range(3)), strict=True), 1):
            record.step(number, 0.1, measured)
        assert record.times.hidden_share == 0.75
        for _ in record.epoch(2, [0]):
            record.step(4, 0.1, Exchange())
        assert record.times.hidden_share is None


def test_epoch_of_only_the_first_step_has_no_mean(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        epoch(record, 1)
        assert record.times.mean is None


def test_mean_is_of_the_epoch_only(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        epoch(record, 3, seconds=0.05)
        epoch(record, 3, seconds=0.001, reducing=0.0)
        assert record.times.mean is not None
        assert record.times.mean.input < 0.03


def test_median_is_of_steps_after_the_first(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        epoch(record, 1, seconds=0.2)
        assert record.times.median is None
        for steps, seconds in ((1, 0.1), (4, 0.04)):
            for _ in record.epoch(1, [0]):
                time.sleep(seconds)
                record.step(steps, 0.1, Exchange(), steps)
            assert record.times.median == pytest.approx(seconds / steps, abs=0.02)


def test_median_counts_every_step_of_a_call(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        for number, (steps, seconds) in enumerate(
            zip(record.epoch(1, [1, 1, 1, 5]), (0, 0.05, 0.05, 0.05), strict=True)
        ):
            time.sleep(seconds)
            record.step(number, 0.1, Exchange(), steps)
        assert record.times.median == pytest.approx(0.01, abs=0.005)


def test_scores_and_checkpoints_are_exported(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        assert families(tmp_path)["orchestrator_training_loss"].samples == []
        record.scores("test", 0.5, 0.9)
        with record.checkpoint():
            time.sleep(0.01)
        assert (value(tmp_path, "loss", split="test"), value(tmp_path, "top1_ratio", split="test")) == (0.5, 0.9)
        assert value(tmp_path, "checkpoint_seconds_count") == 1
        assert value(tmp_path, "checkpoint_seconds_sum") >= 0.01


def test_scores_are_published_at_once(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        record.scores("test", 0.5, 0.9)
        assert (value(tmp_path, "loss", split="test"), value(tmp_path, "top1_ratio", split="test")) == (0.5, 0.9)


def test_only_the_last_scores_outlive_the_rank(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        record.scores("test", 0.5, 0.9)
    assert set(families(tmp_path)) == {"orchestrator_training_loss", "orchestrator_training_top1_ratio"}
    assert (value(tmp_path, "loss", split="test"), value(tmp_path, "top1_ratio", split="test")) == (0.5, 0.9)


def test_exactly_the_metrics_of_the_table_are_written(tmp_path: Path) -> None:
    with recorder(tmp_path):
        assert set(families(tmp_path)) == {metric.family for metric in metrics.TRAINING}


def test_failed_write_is_reported_once_and_training_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with recorder(blocked) as record:
        epoch(record, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rank 1 exports no metrics: {blocked}/resnet20-mnist-1.1.prom: ")


def test_long_epoch_is_published_while_it_runs(tmp_path: Path) -> None:
    with recorder(tmp_path, steps=100) as record:
        counts = set()
        for number, _ in enumerate(record.epoch(1, range(30)), 1):
            time.sleep(0.05)
            record.step(number, 0.1, Exchange())
            counts.add(value(tmp_path, "images_total"))
    assert len(counts) >= 2
