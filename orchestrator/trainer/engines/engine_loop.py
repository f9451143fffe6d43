"""Epochs of an engine: train, evaluate, report. The framework's part is an :class:`Engine`."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from orchestrator.trainer.data.in_memory import Arrays
from orchestrator.trainer.engines.engine_results import Report, Reporting
from orchestrator.trainer.engines.step_inputs import Course

Batch = Any  # images and labels in the engine's own tensors
Indices = Iterable[np.ndarray]  # samples of each batch


class Engine(Reporting, Protocol):
    """One rank's network, and what it does with a batch."""

    def batches(self, split: Arrays, indices: Indices) -> Iterable[Batch]:
        """Return an iterator of batches, from the input pipeline of the engine's framework."""

    def train(self, batch: Batch, rate: float) -> np.ndarray:
        """Update the weights once; return this rank's (summed loss, top-1 hits, top-5 hits, images)."""

    def evaluate(self, batch: Batch) -> np.ndarray:
        """Return this rank's scores of a batch, as :meth:`train`."""

    def average_statistics(self) -> None:
        """Give every rank the mean of all ranks' statistics of batch normalisation. A collective call."""


def run(run_directory: Path, course: Course, engine: Engine) -> None:
    """Train to the end of the course; rank 0 writes results.json after every epoch, and the weights at the end."""
    report = Report(run_directory, course, engine)
    for epoch in course.epochs:
        report.begin(epoch)
        train = _train(course, engine, report, epoch)
        report.trained()
        engine.average_statistics()
        started = time.perf_counter()
        test = _evaluate(course, engine)
        report.add(engine.sum(train), engine.sum(test), time.perf_counter() - started)
        if report.reached:
            break
    report.end()


def _train(course: Course, engine: Engine, report: Report, epoch: int) -> np.ndarray:
    """Train an epoch, and return this rank's sums."""
    sums = np.zeros(4)
    before = time.perf_counter()
    for batch in engine.batches(course.train, course.batches(epoch)):
        ready = time.perf_counter()
        sums += engine.train(batch, course.rate(report.steps))
        after = time.perf_counter()
        report.step(ready - before, after - ready, sums)
        before = after
    return sums


def _evaluate(course: Course, engine: Engine) -> np.ndarray:
    sums = np.zeros(4)
    for batch in engine.batches(course.test, course.test_batches()):
        sums += engine.evaluate(batch)
    return sums
