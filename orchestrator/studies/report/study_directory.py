"""Read a study's directory as :mod:`orchestrator.schema.studies` describes it; what is missing or damaged is named."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from orchestrator import recipes
from orchestrator.config import yaml_documents
from orchestrator.errors import StateError
from orchestrator.schema import Results, bounded_files
from orchestrator.schema.file_model import File
from orchestrator.schema.studies import Launch, Published
from orchestrator.studies import journal, machine_description, round_ratios
from orchestrator.studies.journal import LAUNCHES, MOST_BYTES, RUNS, STUDY
from orchestrator.studies.study_sections import Words

RESULTS = "results.json"
REMEDY = "name the directory that `orchestrator study` made: NAME-study"


class About(File):
    """Keys of study.yaml that a report shows or needs; the rest is the runner's."""

    name: str = ""
    description: str = ""
    engines: Words = Field(["ours"])
    datasets: Words = Field([])
    base: dict[str, Any] = Field({})
    shrink: dict[str, Any] = Field({})
    shrunk: bool = False
    samples: int | None = None
    until: dict[str, Any] = Field({})
    published: list[Published] = Field([])

    @property
    def target_top1(self) -> float | None:
        """Return the accuracy whose time is compared, None if the study has none."""
        shrunk_until = self.shrink.get("until") if self.shrunk else None
        until = self.until if shrunk_until is None else shrunk_until
        top1 = until.get("top1") if isinstance(until, dict) else None
        return top1 if isinstance(top1, float) else None

    @property
    def shrunk_keys(self) -> dict[str, Any]:
        """Return what was made smaller than in the study, by key; empty if nothing was."""
        return {key: value for key, value in _flat(self.shrink) if self.shrunk}

    @property
    def replaced_datasets(self) -> dict[str, str]:
        """Return the data sets that were replaced to make the study smaller, and by which."""
        datasets = self.shrink.get("datasets") if self.shrunk else None
        return {str(key): str(value) for key, value in datasets.items()} if isinstance(datasets, dict) else {}

    def originals(self, dataset: str) -> list[str]:
        """Return the data sets of the study that were measured on ``dataset``, which may be one of them."""
        return [name for name in self.datasets if self.replaced_datasets.get(name, name) == dataset] or [dataset]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values that are set, by their whole key."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


@dataclass(frozen=True)
class StudyFiles:
    """Content of a study's directory.

    ``machine`` are facts of the machines by name. ``notes`` name files that could not be read; the report shows them.
    """

    about: About
    launches: list[Launch]
    results: Mapping[str, Results] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    machine: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def counting(self) -> list[Launch]:
        """Return the launches from which numbers are made: one of each cell and round."""
        return round_ratios.counting(self.launches)

    @property
    def samples(self) -> int | None:
        """Return the training samples of every published time: the study's, else of its only size of data set.

        Published numbers are of the data sets that were replaced, not of those that stand for them.
        """
        datasets = {launch.cell.dataset for launch in self.launches} | self.about.replaced_datasets.keys()
        return self.samples_of(*datasets)

    def samples_of(self, *datasets: str) -> int | None:
        """Return the training samples of a published time: the study's, else those that all the data sets have."""
        counts = {self.about.samples or recipes.datasets().get(name, {}).get("train") for name in datasets}
        return counts.pop() if len(counts) == 1 else None

    def results_of(self, launches: Iterable[Launch]) -> list[Results]:
        """Return the results of launches, of those that have any."""
        return [self.results[launch.run] for launch in launches if launch.run and launch.run in self.results]


def read(directory: Path) -> StudyFiles:
    """Return the content of a study's directory.

    Raises:
        StateError: It holds no study, or its files cannot be used.
    """
    if directory.is_file():
        raise StateError(f"{directory}: expected the directory of a study, found a file", REMEDY)
    try:
        about = About.model_validate(yaml_documents.read(directory / STUDY) or {})
        launches, notes = _launches(directory / LAUNCHES)
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        if missing == LAUNCHES:
            status = f"{journal.status_command(directory)} shows how far the study is"
            raise StateError(f"{directory}: no launch has ended yet", status) from None
        raise StateError(f"{directory} holds no study: {missing} is missing", REMEDY) from None
    except ValidationError as error:
        raise StateError(f"{directory / STUDY}: {bounded_files.problems(error)}", f"repair {STUDY}") from None
    except bounded_files.Unreadable as error:
        raise StateError(str(error), "repair the file, or restore it from a backup") from None
    results, unread = _results(directory / RUNS, launches)
    return StudyFiles(about, launches, results, [*notes, *unread], machine_description.read(directory))


def _launches(path: Path) -> tuple[list[Launch], list[str]]:
    """Return the launches; a last line without an end was being written when the study was killed."""
    *lines, rest = bounded_files.read_bytes(path, MOST_BYTES).split(b"\n")
    launches = [
        bounded_files.load_model(line, Launch, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line
    ]
    return launches, [f"{path.name}: its last line is incomplete and not counted"] if rest else []


def _results(runs: Path, launches: Iterable[Launch]) -> tuple[dict[str, Results], list[str]]:
    results, notes = {}, []
    for run in dict.fromkeys(launch.run for launch in launches if launch.run):
        try:
            results[run] = bounded_files.read_model(runs / run / RESULTS, Results)
        except FileNotFoundError:
            notes.append(f"{RUNS}/{run}/{RESULTS} is missing: accuracy and time split are those of the other launches")
        except bounded_files.Unreadable as error:
            notes.append(f"{RUNS}/{run}/{RESULTS}: {error.reason}")
    return results, notes
