"""All series of a run: fetched from Prometheus, and stored locally as one CSV file per metric."""

import csv
import math
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter, ValidationError

from orchestrator import state
from orchestrator.errors import ContractError, StateError, command
from orchestrator.monitoring.prometheus import NAME, Prometheus, Series
from orchestrator.monitoring.series_summary import PREFIX
from orchestrator.runs.run_record import Run
from orchestrator.schema import MetricName, RunStatus, atomic_write
from orchestrator.state import StateDir

SCRAPE_SECONDS = 5.0
MOST_POINTS = 10_000  # of a series: Prometheus refuses more than 11,000
MOST_METRICS = 1_000  # of a run
MOST_ROWS = 1_000_000  # of a file: long runs with many ranks are sampled more coarsely
AROUND_SECONDS = 3600.0  # largest difference between the clocks of the head and, while a run is active, this machine
MARK = f"{PREFIX}progress_ratio"  # every rank exports it from start to end


def directory(state_dir: StateDir, run: Run) -> Path:
    """Return the directory for the series of a run."""
    return state_dir.runs / run.id / "metrics"


def list_runs(prometheus: Prometheus) -> set[str]:
    """Return the ids of runs with training series in Prometheus."""
    return set(prometheus.label_values("run", MARK))


def fetch(prometheus: Prometheus, run: Run, status: RunStatus | None) -> list[Series]:
    """Fetch every series with the label ``run`` over the span of the run.

    Args:
        prometheus: Client of the cluster's Prometheus.
        run: Run to fetch.
        status: When the run started and ended, by the head's clock; None if it has not ended.

    Returns:
        The series, by name.

    Raises:
        StateError: Prometheus has no series of the run.
        ContractError: Prometheus has too many metrics of the run, or answers in another shape.
        OrchestratorError: Prometheus does not answer in time or refuses.
    """
    selector = f'{{run="{run.id}"}}'
    first, last = _span(prometheus, run, status)
    counts = Counter(_metric(labels.get(NAME, "")) for labels in prometheus.listed(selector, first, last))
    if len(counts) > MOST_METRICS:
        raise ContractError(f"Prometheus has {len(counts)} metrics of run {run.id}: at most {MOST_METRICS} are kept")
    series: list[Series] = []
    for name, count in sorted(counts.items()):
        step = max(SCRAPE_SECONDS, math.ceil((last - first) * count / MOST_ROWS), (last - first) / MOST_POINTS)
        # A longer step would skip the samples of a series' last seconds.
        window = f"last_over_time({name}{selector}[{math.ceil(step)}s])" if step > SCRAPE_SECONDS else name + selector
        answer = prometheus.query_range(window, first, last + step, step)
        series += [Series(name, timeseries.labels, timeseries.samples) for timeseries in answer]
    return series


def _metric(name: str) -> str:
    """Return ``name``, which becomes part of a file name. Raises ContractError if it is not a valid metric name."""
    try:
        return TypeAdapter(MetricName).validate_python(name)
    except ValidationError:
        raise ContractError(f"Prometheus has a metric called {name[:200]!r}: another program may control it") from None


def _span(prometheus: Prometheus, run: Run, status: RunStatus | None) -> tuple[float, float]:
    """Return the times around the first and last sample of a run by the head's clock, as precise as one query is."""
    until = status.ended if status else prometheus.now()
    begin = status.started if status else min(run.started, until)  # this machine's clock may be hours ahead
    first, last = begin - AROUND_SECONDS, until + AROUND_SECONDS
    step = max(SCRAPE_SECONDS, (last - first) / MOST_POINTS)
    present = prometheus.query_range(f'count({MARK}{{run="{run.id}"}})', first, last, step)
    if not present:
        lists = command("runs", prometheus.cluster)
        hint = f"only training runs have them, and not longer than monitoring.retention_time: {lists}"
        raise StateError(f"Prometheus has no training series of run {run.id}", hint)
    return present[0].samples[0][0] - step, present[0].samples[-1][0] + step


def save(state_dir: StateDir, prometheus: Prometheus, run: Run, status: RunStatus | None) -> None:
    """Store all series of a run, or none, with its results.

    Args:
        state_dir: State directory of the cluster.
        prometheus: Client of the cluster's Prometheus.
        run: Run to fetch.
        status: As for :func:`fetch`.

    Raises:
        ConfigError: The files cannot be written.
        StateError: Prometheus has no series of the run.
        ContractError: Prometheus answers in another shape.
        OrchestratorError: Prometheus does not answer in time or refuses.
    """
    target = directory(state_dir, run)
    with state.usable(target):
        for leftover in atomic_write.leftovers(target):
            shutil.rmtree(leftover, ignore_errors=True)
        _save_whole(fetch(prometheus, run, status), target)


def _save_whole(series: Sequence[Series], target: Path) -> None:
    """Write ``series`` to a new directory, all or none."""
    with TemporaryDirectory(dir=target.parent, prefix=atomic_write.unfinished_prefix(target)) as temporary:
        whole = Path(temporary) / target.name
        whole.mkdir()
        write(series, whole)
        whole.replace(target)


def write(series: Sequence[Series], target: Path) -> int:
    """Write one CSV file per metric to ``target`` and return their number.

    Columns are time (unix seconds), the labels, value. A colon, as in the names of recorded series, becomes a dot in
    the file name. Raises OSError.
    """
    by_name: dict[str, list[Series]] = {}
    for timeseries in series:
        by_name.setdefault(timeseries.name, []).append(timeseries)
    target.mkdir(parents=True, exist_ok=True)
    for name, of_name in by_name.items():
        _write(target / f"{_metric(name).replace(':', '.')}.csv", of_name)
    return len(by_name)


def _write(path: Path, series: Sequence[Series]) -> None:
    labels = sorted({label for timeseries in series for label in timeseries.labels})
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["time", *labels, "value"])
        for timeseries in series:
            shown = [timeseries.labels.get(label, "") for label in labels]
            table.writerows([time, *shown, value] for time, value in timeseries.samples)


def read(source: Path) -> list[Series]:
    """Read the files that :func:`write` wrote. Raises StateError if a file is not one of them."""
    series: list[Series] = []
    for path in sorted(source.glob("*.csv")):
        try:
            with path.open(newline="") as file:
                series += _read(path.stem.replace(".", ":"), csv.reader(file))
        except (OSError, ValueError, StopIteration, csv.Error) as error:
            raise StateError(f"{path} cannot be read: {error or 'it is empty'}", "restore it from a copy") from error
    return series


def _read(name: str, rows: Iterator[list[str]]) -> list[Series]:
    labels = next(rows)[1:-1]
    samples: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for time, *shown, value in rows:
        samples.setdefault(tuple(shown), []).append((float(time), float(value)))
    return [
        Series(name, {label: text for label, text in zip(labels, shown, strict=True) if text}, points)
        for shown, points in samples.items()
    ]
