"""Telemetry of a rank for Prometheus while it trains, counted in memory and written to shared memory.

The step loop itself writes, once a second between two steps: no thread takes the interpreter away from the loop, and a
rank opens no port. If shared memory cannot be written, training continues without telemetry.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from orchestrator.schema import StepTimes, TrainConfig
from orchestrator.trainer.telemetry import metrics, snapshots
from orchestrator.trainer.telemetry.metrics import Metric
from orchestrator.trainer.telemetry.step_times import EpochTimes, Exchange, split_step

PUBLISH_SECONDS = 1.0
Batch = TypeVar("Batch")


@dataclass(frozen=True)
class Plan:
    """Facts known before the first step.

    Attributes:
        rank: Number of this rank.
        world: Number of ranks.
        batch: Images per rank and step.
        epochs: Planned epochs.
        steps: Planned steps.
        reduced_bytes: Bytes that one step gives to allreduce.
        steps_before: Steps done by a run that this one continues.
    """

    rank: int
    world: int
    batch: int
    epochs: int
    steps: int
    reduced_bytes: int
    steps_before: int = 0

    def progress(self, done: int) -> float:
        return min(1.0, done / self.steps)


class Recorder:
    """Telemetry of one rank, served while its context is entered; ``times`` are those of the epoch's steps so far."""

    def __init__(self, config: TrainConfig, plan: Plan, directory: Path = snapshots.DIRECTORY) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.plan = plan
        self._restarts = config.restarts
        self._work = {"image_size": str(config.image_size), "precision": config.precision}
        self._snapshot: snapshots.Snapshot | None = snapshots.Snapshot(directory, config.run, plan.rank)
        self._registry = CollectorRegistry()
        self._labels = {"run": config.run, "model": config.model, "dataset": config.dataset, "rank": str(plan.rank)}
        self._metrics = {metric.name: _make(metric, self._registry) for metric in metrics.TRAINING}
        self._series: dict[tuple[str, ...], Any] = {}
        self._step_started = self._published = time.perf_counter()
        self._blocked = self._agreement_seconds = 0.0
        self._traced = False
        self.times = EpochTimes()

    def __enter__(self) -> "Recorder":
        plan = self.plan
        self._metric(metrics.EPOCHS).set(plan.epochs)
        self._metric(metrics.WORLD_SIZE).set(plan.world)
        self._metric(metrics.START_TIME).set(time.time())
        self._metric(metrics.START_PROGRESS).set(plan.progress(plan.steps_before))
        self._metric(metrics.PROGRESS).set(plan.progress(plan.steps_before))
        self._metric(metrics.BATCH_SIZE, **self._work).set(plan.batch)
        self._metric(metrics.RESTARTS).inc(self._restarts)
        self.publish()
        return self

    def __exit__(self, *_: object) -> None:
        """End the series, except the scores, which Prometheus may not have read since they were set."""
        if self._snapshot is None:
            return
        scores = [metrics.LOSS.name, metrics.TOP1.name]
        with suppress(OSError):  # results.json has them
            if any(name in scores for name, *_ in self._series):
                self._snapshot.leave(prometheus_client.generate_latest(self._registry.restricted_registry(scores)))
        self._snapshot.remove()

    def epoch(self, number: int, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of an epoch's training, and measure the time that each was waited for."""
        self._metric(metrics.EPOCH).set(number)
        self.times = EpochTimes()
        self._step_started = time.perf_counter()
        iterator = iter(batches)
        try:
            while True:
                started = time.perf_counter()
                batch = next(iterator, None)
                self._blocked = time.perf_counter() - started
                if batch is None:
                    return
                yield batch
        finally:
            self.publish()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Exclude work between two steps, such as writing a checkpoint, from the times of steps."""
        started = time.perf_counter()
        yield
        self._step_started += time.perf_counter() - started

    @contextmanager
    def measure_agreement(self) -> Iterator[None]:
        """Measure communication of ranks between two steps."""
        started = time.perf_counter()
        yield
        self._agreement_seconds = time.perf_counter() - started

    def step(self, done: int, learning_rate: float, exchange: Exchange, steps: int = 1) -> None:
        """Record the end of one call.

        Args:
            done: Steps of the run that are done.
            learning_rate: Of the last step.
            exchange: Of the steps' gradients.
            steps: Steps of the call, each of which counts as their mean.
        """
        now = time.perf_counter()
        whole, self._step_started = now - self._step_started, now
        self._metric(metrics.IMAGES).inc(steps * self.plan.batch)
        self._metric(metrics.REDUCED_BYTES).inc(steps * self.plan.reduced_bytes)
        self._metric(metrics.LEARNING_RATE).set(learning_rate)
        self._metric(metrics.PROGRESS).set(self.plan.progress(done))
        if self._traced:
            parts = split_step(whole, self._blocked, exchange.waited + self._agreement_seconds)
            self.times.add(parts, exchange, steps)
            self._observe(parts, steps)
        else:
            self._metric(metrics.FIRST_STEP_SECONDS).set(whole)
        if not self._traced or now - self._published >= PUBLISH_SECONDS:
            self.publish()
        self._traced, self._agreement_seconds = True, 0.0

    def _observe(self, parts: StepTimes, steps: int) -> None:
        observed = [(self._metric(metrics.STEP_SECONDS), sum(parts))]
        observed += [
            (self._metric(metrics.STEP_PART_SECONDS, part=name), time) for name, time in parts._asdict().items()
        ]
        for histogram, seconds in observed:
            for _ in range(steps):
                histogram.observe(seconds / steps)

    def scores(self, split: str, loss: float, top1: float) -> None:
        """Set the latest scores and publish them.

        Args:
            split: "train" or "test".
            loss: Mean loss in nats.
            top1: Share of correct classes, 0 to 1.
        """
        self._metric(metrics.LOSS, split=split).set(loss)
        self._metric(metrics.TOP1, split=split).set(top1)
        self.publish()

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Measure the writing of a checkpoint."""
        with self._metric(metrics.CHECKPOINT_SECONDS).time():
            yield
        self.publish()

    def publish(self) -> None:
        """Write the snapshot; if that fails, print a message once and stop writing."""
        self._published = time.perf_counter()
        if self._snapshot is None:
            return
        try:
            self._snapshot.write(prometheus_client.generate_latest(self._registry))
        except OSError as error:
            print(f"rank {self.plan.rank} exports no metrics: {self._snapshot.path}: {error.strerror}", file=sys.stderr)
            self._snapshot.remove()
            self._snapshot = None

    def _metric(self, metric: Metric, **labels: str) -> Any:
        key = (metric.name, *labels.values())
        if key not in self._series:
            self._series[key] = self._metrics[metric.name].labels(**self._labels, **labels)
        return self._series[key]


def _make(metric: Metric, registry: CollectorRegistry) -> "Counter | Gauge | Histogram":
    if metric.kind == "histogram":
        return Histogram(metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)
    kind = Counter if metric.kind == "counter" else Gauge
    return kind(metric.name, metric.help, metric.labels, registry=registry)
