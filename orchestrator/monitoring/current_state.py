"""Current state of nodes and runs, from a few Prometheus queries."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.monitoring import series_summary
from orchestrator.monitoring.prometheus import Prometheus, Series, is_usable
from orchestrator.monitoring.series_summary import PARTS, PREFIX, Summary

MEBIBYTE = 1 << 20
NODES = r'{__name__=~"up|node:node_.+|DCGM_FI_DEV_(GPU_UTIL|FB_USED|FB_FREE|POWER_USAGE|GPU_TEMP)"}'
RUNS = r'{__name__=~"run:orchestrator_training_.+|rank:orchestrator_training_straggler:ratio"}'
TRAINING = rf'last_over_time({{__name__=~"{PREFIX}.+",__name__!~".+_bucket"}}[%s])'
LONGEST = 10 * 365 * 86400.0  # seconds that a run may have left; a longer forecast is not shown
RUNNING, RECENT = "1m", "1h"  # spans of PromQL
GOING = f"last_over_time({PREFIX}progress_ratio[15s])"  # a scrape that fails does not end a run


@dataclass(frozen=True)
class Gpu:
    """A GPU as dcgm-exporter reports it, in plain units: utilisation 0 to 1, bytes, watts, degrees Celsius."""

    gpu: str
    model: str | None
    utilisation: float | None
    memory_used_bytes: float | None
    memory_bytes: float | None
    power_watts: float | None
    temperature_celsius: float | None


@dataclass(frozen=True)
class Node:
    """A node: fractions from 0 to 1; bytes per second on the training interface, and its utilisation if known."""

    node: str
    up: bool
    cpu: float | None
    memory: float | None
    receive_bytes_per_second: float | None
    transmit_bytes_per_second: float | None
    network: float | None
    gpus: list[Gpu]


@dataclass(frozen=True)
class Slowest:
    """The rank that spends the most time on its own work per step, as a multiple of the run's median."""

    rank: int
    node: str | None
    ratio: float


@dataclass(frozen=True)
class RunningRun:
    """A run, with current values while it is active.

    ``images_per_second`` is over the last 30 s, ``split`` (fractions of a step, 0 to 1) and ``slowest`` are over the
    last two minutes; all are None after its end. The other fields are as in ``Summary``, over the whole run.
    """

    run: str
    running: bool
    model: str | None
    dataset: str | None
    ranks: int
    nodes: int
    images_per_second: float | None
    images_per_second_mean: float | None
    loss: dict[str, float | None]
    top1: dict[str, float | None]
    epoch: int | None
    epochs: int | None
    progress: float | None
    eta_seconds: float | None
    split: dict[str, float | None]
    step_seconds: float | None
    split_seconds: dict[str, float | None]
    slowest: Slowest | None


@dataclass(frozen=True)
class Top:
    """State of a cluster at ``time`` (unix seconds by the head's clock)."""

    time: float
    nodes: list[Node]
    runs: list[RunningRun]


def query_top(prometheus: Prometheus, nodes: Sequence[str]) -> Top:
    """Read the state of ``nodes``, in their order, and the active runs, or else the last run of the past hour.

    Raises the errors of ``Prometheus``.
    """
    now = prometheus.now()
    of_nodes, of_runs = prometheus.query(NODES), prometheus.query(RUNS)
    training = prometheus.query(TRAINING % RUNNING)
    recent = [
        run for run in series_summary.by_run(training).values() if run.progress is not None
    ]  # not only its last scores
    runs = recent or list(series_summary.by_run(prometheus.query(TRAINING % RECENT)).values())[-1:]
    going = {metric.labels["run"] for metric in prometheus.query(GOING) if "run" in metric.labels}
    return Top(
        now,
        [_node(name, [metric for metric in of_nodes if metric.labels.get("node") == name]) for name in nodes],
        [_run(metric, of_runs, metric.run in going, now) for metric in runs],
    )


def _node(name: str, series: Sequence[Series]) -> Node:
    return Node(
        node=name,
        up=_value(series, "up", job="node") == 1.0,
        cpu=_value(series, "node:node_cpu:ratio"),
        memory=_value(series, "node:node_memory:ratio"),
        receive_bytes_per_second=_value(series, "node:node_network_receive_bytes:rate30s"),
        transmit_bytes_per_second=_value(series, "node:node_network_transmit_bytes:rate30s"),
        network=_value(series, "node:node_network_utilisation:ratio"),
        gpus=_gpus(series),
    )


def _gpus(series: Sequence[Series]) -> list[Gpu]:
    numbers = sorted(
        {metric.labels["gpu"] for metric in series if "gpu" in metric.labels}, key=lambda text: (len(text), text)
    )
    return [_gpu(number, [metric for metric in series if metric.labels.get("gpu") == number]) for number in numbers]


def _gpu(number: str, series: Sequence[Series]) -> Gpu:
    busy, used, free = (_value(series, f"DCGM_FI_DEV_{name}") for name in ("GPU_UTIL", "FB_USED", "FB_FREE"))
    return Gpu(
        gpu=number,
        model=next((metric.labels["modelName"] for metric in series if "modelName" in metric.labels), None),
        utilisation=None if busy is None else busy / 100,
        memory_used_bytes=None if used is None else used * MEBIBYTE,
        memory_bytes=None if used is None or free is None else (used + free) * MEBIBYTE,
        power_watts=_value(series, "DCGM_FI_DEV_POWER_USAGE"),
        temperature_celsius=_value(series, "DCGM_FI_DEV_GPU_TEMP"),
    )


def _run(whole: Summary, series: Sequence[Series], running: bool, now: float) -> RunningRun:
    run_series = [metric for metric in series if metric.labels.get("run") == whole.run] if running else []
    return RunningRun(
        run=whole.run,
        running=running,
        model=whole.model,
        dataset=whole.dataset,
        ranks=whole.ranks,
        nodes=len(whole.nodes),
        images_per_second=_value(run_series, f"run:{PREFIX}images:rate30s"),
        images_per_second_mean=whole.images_per_second,
        loss=whole.loss,
        top1=whole.top1,
        epoch=whole.epoch,
        epochs=whole.epochs,
        progress=whole.progress,
        eta_seconds=_eta(whole, now) if running else None,
        split={part: _value(run_series, f"run:{PREFIX}{part}:ratio") for part in PARTS},
        step_seconds=whole.step_seconds,
        split_seconds=whole.split_seconds,
        slowest=_slowest(run_series),
    )


def _eta(whole: Summary, now: float) -> float | None:
    """Estimate the seconds to the end of the run at its mean pace so far, evaluations included."""
    if whole.progress is None or whole.started is None:
        return None
    done = whole.progress - (whole.start_progress or 0.0)
    remaining = (now - whole.started) * (1.0 - whole.progress) / done if done > 0.0 else math.nan
    return remaining if 0.0 <= remaining <= LONGEST else None


def _slowest(series: Iterable[Series]) -> Slowest | None:
    ratios = [metric for metric in series if metric.name == f"rank:{PREFIX}straggler:ratio" and is_usable(metric.value)]
    worst = max(ratios, key=lambda metric: metric.value, default=None)
    return Slowest(worst.rank, worst.labels.get("node"), worst.value) if worst else None


def _value(series: Iterable[Series], name: str, **labels: str) -> float | None:
    """Return the value of the first usable series with that name and labels; None without one."""
    values = (metric.value for metric in series if metric.name == name and labels.items() <= metric.labels.items())
    return next((value for value in values if is_usable(value)), None)
