"""All that a report says, before it has a format."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.studies.report import (
    cells,
    compare_with_published,
    contradictions,
    measurement_conditions,
    number_text,
    study_directory,
    tables,
)
from orchestrator.studies.report.cells import Summary
from orchestrator.studies.report.compare_with_published import Comparison
from orchestrator.studies.report.contradictions import Contradiction
from orchestrator.studies.report.study_directory import StudyFiles
from orchestrator.studies.report.tables import Table


@dataclass(frozen=True)
class Report:
    """A study with what follows from its files."""

    study: StudyFiles
    summaries: list[Summary]
    comparisons: list[Comparison]
    contradictions: list[Contradiction]

    @property
    def title(self) -> str:
        """Return the name of the study."""
        return number_text.plain(f"Study {self.study.about.name}")

    @property
    def description(self) -> str:
        """Return what the study compares, in one line."""
        return number_text.plain(self.study.about.description)

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts of the study by name."""
        return measurement_conditions.facts(self.study, self.summaries)

    @property
    def notes(self) -> list[str]:
        """Return sentences that a reader must not miss: the A/A pair, contradictions, files that are missing."""
        flags = [
            f"The published numbers contradict themselves: {contradiction.message}."
            for contradiction in self.contradictions
        ]
        sentences = (measurement_conditions.aa_sentence(self.summaries), *flags, *self.remarks)
        return [number_text.plain(note) for note in sentences]

    @property
    def remarks(self) -> list[str]:
        """Return sentences about launches, data and files that are not as a reader expects."""
        return [
            *measurement_conditions.partly_tested(self.summaries),
            *measurement_conditions.parts_of_datasets(self.summaries),
            *measurement_conditions.other_threads(self.summaries),
            *compare_with_published.without_samples(self.study, self.comparisons),
            *measurement_conditions.disturbed(self.study.counting),
            *self.study.notes,
        ]

    @property
    def tables(self) -> list[Table]:
        """Return the tables that have rows."""
        base, target = cells.base_name(self.study), self.study.about.target_top1
        candidates = [
            table
            for group, members in tables.groups(self.summaries).items()
            for table in (tables.speed(group, members, base), tables.time(group, members, target))
        ]
        candidates += [tables.published(self.comparisons), tables.failures(self.study)]
        return [table for table in candidates if table.rows]


def build(directory: Path) -> Report:
    """Return the report of the study in a directory.

    Raises:
        StateError: It holds no study, or its files cannot be used.
    """
    study = study_directory.read(directory)
    summaries = cells.summarise(study)
    compared = compare_with_published.compare(study, summaries)
    contradicting = contradictions.find(
        study.about.published, lambda name: study.samples_of(name) if name else study.samples
    )
    return Report(study, summaries, compared, contradicting)
