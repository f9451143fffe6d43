"""Compare published numbers with the measured ones, each reading of an ambiguous text separately. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from orchestrator.schema.studies import Metric, Published
from orchestrator.studies.report import published_numbers
from orchestrator.studies.report.cells import Summary
from orchestrator.studies.statistics import Estimate
from orchestrator.studies.study_definition import agrees


class Comparison(NamedTuple):
    """A published number and the measured one of the same cell; ``summary`` is None if the study has no such cell."""

    number: Published
    reading: str
    published: float
    summary: Summary | None
    measured: Estimate | None

    @property
    def ratio(self) -> Estimate | None:
        """Return measured / published, with the interval of the measured number."""
        return self.measured.scaled(1 / self.published) if self.measured and self.published else None


def compare(
    numbers: Sequence[Published],
    summaries: Sequence[Summary],
    samples: int | None,
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> list[Comparison]:
    """Compare each reading of each number with every cell that it describes.

    Args:
        numbers: Published numbers.
        summaries: The measured cells.
        samples: Training samples of one published time. None compares with the seconds of an epoch as it was run.
        replaced: Data sets that others stand for in a study that was shrunk, and these.

    Returns:
        The comparisons in the order of the numbers.
    """
    return [
        Comparison(number, reading, value, summary, MEASURED[number.metric](summary, samples) if summary else None)
        for number in numbers
        for reading, value in readings(number)
        for summary in _cells_of(number, summaries, replaced) or [None]
    ]


def readings(number: Published) -> Iterator[tuple[str, float]]:
    """Yield what a printed number can mean, by the name of the reading; the first is the study's."""
    whole = published_numbers.whole_seconds(number)
    if whole is None:
        yield "", number.value
    else:
        yield "steps x ms", number.value
        yield "whole seconds", whole


def _cells_of(number: Published, summaries: Sequence[Summary], replaced: Mapping[str, str]) -> list[Summary | None]:
    cell = {key: replaced.get(str(value), value) if key == "dataset" else value for key, value in number.cell.items()}
    return [summary for summary in summaries if agrees(summary.cell, cell)]


def _seconds(summary: Summary, samples: int | None) -> Estimate | None:
    """Return the time for the published number of samples at the measured speed."""
    if samples is None:
        return summary.seconds
    return summary.images and summary.images.reciprocal().scaled(samples)


MEASURED: Mapping[Metric, Callable[[Summary, int | None], Estimate | None]] = {
    "images_per_second": lambda summary, _: summary.images,
    "seconds": _seconds,
    "top1": lambda summary, _: None if summary.test_samples else summary.top1,  # the paper's is of the whole test
    "efficiency": lambda summary, _: summary.efficiency,
    "speed_up": lambda summary, _: summary.speed_up,
}
