"""Summary of the series of a run. Pure: series in, numbers out; only the latest value of each series counts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.monitoring.prometheus import Series, is_usable

PREFIX = "orchestrator_training_"
PARTS = ("input", "compute", "communication")
SPLITS = ("train", "test")


@dataclass(frozen=True)
class Rank:
    """One rank: mean images/s, mean seconds of a step and of its parts; None without a series."""

    rank: int
    node: str | None
    images_per_second: float | None
    step_seconds: float | None
    split_seconds: dict[str, float | None]


@dataclass(frozen=True)
class Summary:
    """Summary of a run so far, or after its end.

    Means are over all ranks and all steps but the first. ``images_per_second`` is the sum of all ranks;
    ``loss`` (nats) and ``top1`` (0 to 1) are by split; ``progress`` is from 0 to 1 and began at ``start_progress``;
    ``started`` is in unix seconds; ``checkpoint_seconds`` is the mean of a checkpoint; ``reduced_bytes`` is the sum of
    all ranks.
    """

    run: str
    model: str | None
    dataset: str | None
    ranks: int
    nodes: list[str]
    batch_size: int | None
    started: float | None
    epoch: int | None
    epochs: int | None
    start_progress: float | None
    progress: float | None
    images: int | None
    images_per_second: float | None
    step_seconds: float | None
    split_seconds: dict[str, float | None]
    first_step_seconds: float | None
    loss: dict[str, float | None]
    top1: dict[str, float | None]
    learning_rate: float | None
    reduced_bytes: float | None
    checkpoint_seconds: float | None
    restarts: int | None
    per_rank: list[Rank]


class _Values:
    """Values of the series of one run, or of one of its ranks, by name and labels."""

    def __init__(self, series: Iterable[Series]) -> None:
        self.series = [s for s in series if s.name.startswith(PREFIX) and "rank" in s.labels]

    def all(self, name: str, **labels: str) -> list[float]:
        matching = (s for s in self.series if s.name == PREFIX + name and labels.items() <= s.labels.items())
        return [s.value for s in matching if is_usable(s.value)]

    def any(self, name: str, **labels: str) -> float | None:
        return next(iter(self.all(name, **labels)), None)

    def most(self, name: str) -> float | None:
        return max(self.all(name), default=None)

    def total(self, name: str) -> float | None:
        matching = self.all(name)
        return sum(matching) if matching else None

    def average(self, name: str, **labels: str) -> float | None:
        matching = self.all(name, **labels)
        return sum(matching) / len(matching) if matching else None

    def mean(self, histogram: str, **labels: str) -> float | None:
        """Return the mean seconds of an observation."""
        count = sum(self.all(f"{histogram}_count", **labels))
        mean = sum(self.all(f"{histogram}_sum", **labels)) / count if count else math.nan
        return mean if is_usable(mean) else None

    def split(self) -> dict[str, float | None]:
        return {part: self.mean("step_part_seconds", part=part) for part in PARTS}


def by_run(series: Sequence[Series]) -> dict[str, Summary]:
    """Summarize training series, which have the labels run and rank, by run; the newest run is last."""
    runs: dict[str, list[Series]] = {}
    for metric in series:
        if metric.name.startswith(PREFIX) and {"run", "rank"} <= metric.labels.keys():
            runs.setdefault(metric.labels["run"], []).append(metric)
    summaries = [_summary(run, of_run) for run, of_run in runs.items()]
    return {run.run: run for run in sorted(summaries, key=lambda run: (run.started or 0.0, run.run))}


def _summary(run: str, series: Sequence[Series]) -> Summary:
    values, ranks, labels = _Values(series), _ranks(series), series[0].labels
    rates = [rank.images_per_second for rank in ranks if rank.images_per_second is not None]
    return Summary(
        run=run,
        model=labels.get("model"),
        dataset=labels.get("dataset"),
        ranks=len(ranks),
        nodes=sorted({rank.node for rank in ranks if rank.node}),
        batch_size=_whole(values.any("batch_size")),
        started=min(values.all("start_time_seconds"), default=None),
        epoch=_whole(values.most("epoch")),
        epochs=_whole(values.most("epochs")),
        start_progress=min(values.all("start_progress_ratio"), default=None),
        progress=min(values.all("progress_ratio"), default=None),
        images=_whole(values.total("images_total")),
        images_per_second=sum(rates) if rates else None,
        step_seconds=values.mean("step_seconds"),
        split_seconds=values.split(),
        first_step_seconds=values.most("first_step_seconds"),
        loss={split: values.average("loss", split=split) for split in SPLITS},
        top1={split: values.average("top1_ratio", split=split) for split in SPLITS},
        learning_rate=values.any("learning_rate"),
        reduced_bytes=values.total("reduced_bytes_total"),
        checkpoint_seconds=values.mean("checkpoint_seconds"),
        restarts=_whole(values.most("restarts_total")),
        per_rank=ranks,
    )


def _ranks(series: Sequence[Series]) -> list[Rank]:
    ranks: dict[int, list[Series]] = {}
    for metric in series:
        ranks.setdefault(metric.rank, []).append(metric)
    return [_rank(number, of_rank) for number, of_rank in sorted(ranks.items())]


def _rank(number: int, series: Sequence[Series]) -> Rank:
    values = _Values(series)
    step, batch = values.mean("step_seconds"), values.any("batch_size")
    rate = batch / step if step and batch else math.nan
    return Rank(number, series[0].labels.get("node"), rate if is_usable(rate) else None, step, values.split())


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def shares(seconds: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return parts of a step as fractions of their sum, 0 to 1."""
    whole = sum(value for value in seconds.values() if value is not None)
    return {part: value / whole if value is not None and whole else None for part, value in seconds.items()}
