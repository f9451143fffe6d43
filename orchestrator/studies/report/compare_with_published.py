"""Compare published numbers with the measured ones, each reading of an ambiguous text separately. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orchestrator.schema.studies import Metric, Published
from orchestrator.studies.confidence_intervals import Estimate
from orchestrator.studies.report import published_numbers
from orchestrator.studies.report.cells import Summary
from orchestrator.studies.report.study_directory import StudyFiles
from orchestrator.studies.study_definition import agrees, replaced


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


def compare(study: StudyFiles, summaries: Sequence[Summary]) -> list[Comparison]:
    """Compare each reading of each published number with every cell that it describes, in the study's order."""
    return [
        Comparison(number, reading, value, summary, _measured(study, number, summary) if summary else None)
        for number in study.about.published
        for reading, value in readings(number)
        for summary in _cells_of(number, summaries, study.about.replaced_datasets) or [None]
    ]


def readings(number: Published) -> Iterator[tuple[str, float]]:
    """Yield what a printed number can mean, by the name of the reading; the first is the study's."""
    whole = published_numbers.whole_seconds(number)
    if whole is None:
        yield "", number.value
    else:
        yield "steps x ms", number.value
        yield "whole seconds", whole


def _cells_of(number: Published, summaries: Sequence[Summary], datasets: Mapping[str, str]) -> list[Summary | None]:
    cell = replaced(number.cell, datasets)
    return [summary for summary in summaries if agrees(summary.cell, cell)]


def without_samples(study: StudyFiles, comparisons: Iterable[Comparison]) -> list[str]:
    """Return a sentence for each data set whose published times cannot be compared, since its size is unknown."""
    datasets = {
        " or ".join(_datasets(study, comparison.number, comparison.summary)): None
        for comparison in comparisons
        if comparison.number.metric == "seconds" and comparison.summary and comparison.summary.images
        if comparison.measured is None
    }
    why = "the number of training samples is unknown. `samples` in study.yaml names it"
    return [f"Published seconds on {name} have no measured number to compare with: {why}." for name in datasets]


def _datasets(study: StudyFiles, number: Published, summary: Summary) -> list[str]:
    """Return the data sets that a published number can be of: also if another one stood for them."""
    named = number.cell.get("dataset")
    return study.about.originals(summary.cell.dataset) if named is None else [str(named)]


def _measured(study: StudyFiles, number: Published, summary: Summary) -> Estimate | None:
    """Return what was measured; for seconds, the time that the published samples take at the measured speed."""
    if number.metric != "seconds":
        return MEASURED[number.metric](summary)
    count = study.samples_of(*_datasets(study, number, summary))
    return summary.images.reciprocal().scaled(count) if count and summary.images else None


MEASURED: Mapping[Metric, Callable[[Summary], Estimate | None]] = {
    "images_per_second": lambda summary: summary.images,
    "top1": lambda summary: None if summary.test_samples else summary.top1,  # the paper's is of the whole test
    "efficiency": lambda summary: summary.efficiency,
    "speed_up": lambda summary: summary.speed_up,
}
