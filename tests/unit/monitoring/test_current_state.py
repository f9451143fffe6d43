"""Rows of nodes and runs that `orchestrator top` computes from Prometheus' answers."""

import math
from collections.abc import Sequence

import pytest

from orchestrator.monitoring import current_state, series_summary
from orchestrator.monitoring.current_state import Gpu, Slowest, Top
from orchestrator.monitoring.prometheus import Prometheus, Series
from tests.stand_ins import prometheus_stand_in
from tests.stand_ins.prometheus_stand_in import NOW, Answers, vector

RUN = {"run": "resnet20-mnist-1", "model": "resnet20", "dataset": "mnist"}
PROGRESS = "orchestrator_training_progress_ratio"


def sample(name: str, value: float, **labels: str) -> Series:
    return Series(name, labels, [(NOW, value)])


NODES = [
    sample("up", 1.0, job="node", node="demo-head"),
    sample("up", 0.0, job="node", node="demo-worker-0"),
    sample("up", 1.0, job="orchestrator", node="demo-worker-0"),
    sample("node:node_cpu:ratio", 0.75, node="demo-head"),
    sample("node:node_memory:ratio", 0.5, node="demo-head"),
    sample("node:node_network_receive_bytes:rate30s", 2e6, node="demo-head"),
    sample("node:node_network_transmit_bytes:rate30s", 1e6, node="demo-head"),
    sample("node:node_network_utilisation:ratio", math.nan, node="demo-head"),
    *(
        sample(f"DCGM_FI_DEV_{name}", value, node="demo-head", gpu="0", modelName="NVIDIA A100")
        for name, value in {"GPU_UTIL": 90.0, "FB_USED": 1024.0, "FB_FREE": 3072.0, "POWER_USAGE": 250.0}.items()
    ),
    sample("DCGM_FI_DEV_GPU_UTIL", 10.0, node="demo-head", gpu="10"),
    sample("DCGM_FI_DEV_GPU_UTIL", 20.0, node="demo-head", gpu="2"),
]
RUNS = [
    sample("run:orchestrator_training_images:rate30s", 570.0, **RUN),
    sample("run:orchestrator_training_input:ratio", 0.2, **RUN),
    sample("run:orchestrator_training_compute:ratio", 0.5, **RUN),
    sample("run:orchestrator_training_communication:ratio", 0.3, **RUN),
    sample("rank:orchestrator_training_straggler:ratio", 0.9, **RUN, rank="0", node="demo-head"),
    sample("rank:orchestrator_training_straggler:ratio", 1.1, **RUN, rank="1", node="demo-worker-0"),
]


def answers(minute: Sequence[Series], hour: Sequence[Series], running: bool) -> Answers:
    return {
        ("query", current_state.NODES): vector(*NODES),
        ("query", current_state.RUNS): vector(*RUNS),
        ("query", current_state.TRAINING % current_state.RUNNING): vector(*minute),
        ("query", current_state.TRAINING % current_state.RECENT): vector(*hour),
        ("query", current_state.GOING): vector(*(s for s in minute if s.name == PROGRESS and running)),
    }


def top_of(minute: Sequence[Series] = (), hour: Sequence[Series] = (), running: bool = True) -> Top:
    every = answers(minute, hour, running)
    with prometheus_stand_in.listening(every) as port, Prometheus(f"http://127.0.0.1:{port}") as prometheus:
        return current_state.query_top(prometheus, ["demo-head", "demo-worker-0"])


def test_every_node_has_a_row_that_shows_if_it_is_down() -> None:
    head, worker = top_of().nodes
    assert (head.node, head.up, head.cpu, head.memory) == ("demo-head", True, 0.75, 0.5)
    assert (head.receive_bytes_per_second, head.transmit_bytes_per_second, head.network) == (2e6, 1e6, None)
    assert (worker.node, worker.up, worker.cpu, worker.gpus) == ("demo-worker-0", False, None, [])


def test_gpus_are_in_numerical_order_and_in_plain_units() -> None:
    first, second, third = top_of().nodes[0].gpus
    assert first == Gpu("0", "NVIDIA A100", 0.9, float(1 << 30), float(4 << 30), 250.0, None)
    assert [(gpu.gpu, gpu.utilisation) for gpu in (second, third)] == [("2", 0.2), ("10", 0.1)]


def test_running_run_has_current_and_mean_speed_and_time_left() -> None:
    [run] = top_of(prometheus_stand_in.training()).runs
    assert (run.run, run.running, run.ranks, run.nodes) == ("resnet20-mnist-1", True, 2, 2)
    assert run.images_per_second == 570.0
    assert run.images_per_second_mean == pytest.approx(32 / 0.1 + 32 / 0.125)
    assert (run.epoch, run.epochs, run.progress) == (2, 4, 0.25)
    assert run.eta_seconds == pytest.approx(180.0)  # a quarter took a minute
    assert run.loss == {"train": 0.5, "test": 0.75}
    assert run.split == {"input": 0.2, "compute": 0.5, "communication": 0.3}
    assert run.slowest == Slowest(1, "demo-worker-0", 1.1)


def test_run_of_which_only_scores_are_recent_is_shown_whole() -> None:
    scores = [s for s in prometheus_stand_in.training() if s.name.endswith(("_loss", "_top1_ratio"))]
    [run] = top_of(scores, hour=prometheus_stand_in.training(), running=False).runs
    assert (run.running, run.epoch, run.progress) == (False, 2, 0.25)


def test_time_left_of_a_resumed_run_counts_only_its_own_steps() -> None:
    before = sample("orchestrator_training_start_progress_ratio", 0.15, **RUN, rank="0", node="demo-head")
    [run] = top_of([*prometheus_stand_in.training(), before]).runs
    assert run.eta_seconds == pytest.approx(450.0)  # a tenth took a minute
    at_first = Series(before.name, before.labels, [(NOW, 0.25)])
    [run] = top_of([*prometheus_stand_in.training(), at_first]).runs
    assert run.eta_seconds is None


def test_parts_of_a_step_sum_to_it() -> None:
    [run] = top_of(prometheus_stand_in.training()).runs
    assert run.step_seconds == pytest.approx(0.1125)
    assert sum(part or 0.0 for part in run.split_seconds.values()) == pytest.approx(run.step_seconds)
    assert series_summary.shares(run.split_seconds)["compute"] == pytest.approx(0.5)


def test_ended_run_has_its_mean_and_no_current_values() -> None:
    [run] = top_of(hour=prometheus_stand_in.training(), running=False).runs
    assert (run.running, run.images_per_second, run.eta_seconds, run.slowest) == (False, None, None, None)
    assert run.images_per_second_mean == pytest.approx(576.0)
    assert set(run.split.values()) == {None}


def test_newest_of_ended_runs_is_shown() -> None:
    older = [s for s in prometheus_stand_in.training("z-older") if "start_time" not in s.name]
    shown = top_of(hour=[*prometheus_stand_in.training(), *older])
    assert [run.run for run in shown.runs] == ["resnet20-mnist-1"]


def test_idle_cluster_has_no_runs() -> None:
    assert top_of().runs == []


def test_run_of_one_step_or_with_nan_loss_has_gaps() -> None:
    labels = {**RUN, "rank": "0", "node": "demo-head"}
    series = [sample("orchestrator_training_loss", math.nan, **labels, split="train"), sample(PROGRESS, 0.0, **labels)]
    series += [sample(f"orchestrator_training_step_seconds_{name}", 0.0, **labels) for name in ("count", "sum")]
    [run] = top_of(series).runs
    assert (run.images_per_second_mean, run.step_seconds, run.eta_seconds) == (None, None, None)
    assert run.loss == {"train": None, "test": None}


def test_rank_that_moved_to_another_node_counts_once() -> None:
    moved = [Series(s.name, {**s.labels, "node": "demo-worker-0"}, s.samples) for s in _of_rank_0()]
    whole = series_summary.by_run([*prometheus_stand_in.training(), *moved])["resnet20-mnist-1"]
    assert [rank.rank for rank in whole.per_rank] == [0, 1]
    assert whole.images_per_second == pytest.approx(576.0)


def _of_rank_0() -> list[Series]:
    return [s for s in prometheus_stand_in.training() if s.labels["rank"] == "0"]
