"""Any bytes, value or truncation of a study's files: one error with the file's name, or the usable part."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config import yaml_documents
from orchestrator.errors import ConfigError, OrchestratorError, StateError
from orchestrator.studies import journal, matrix, progress_messages, resumable_study, status, study_files
from orchestrator.studies.journal import Started
from orchestrator.studies.launch_schedule import Schedule
from orchestrator.studies.report import content, formats
from tests.stand_ins import fuzz
from tests.unit.studies import studies
from tests.unit.studies.sample_study import Sample, published

WHOLE = json.loads(
    studies.study(
        description="x",
        batch=[8, 16],
        options={"precision": ["float32"]},
        exclude=[{"ranks": 2, "batch": 8}],
        base={"ranks": 1},
        repetitions={"width": 0.05, "at_least": 6, "at_most": 8},
        until={"epochs": 2, "top1": 0.9},
        data={"mnist": "/data"},
        samples=60_000,
        published=[{"cell": {"ranks": 1}, "metric": "seconds", "value": 4.0, "source": "table 2", "text": "4s 9ms"}],
        shrink={"image_size": 32, "until": {"steps": 20}, "ranks": [1], "batch": [8], "repetitions": 2},
        shrunk=True,
    ).model_dump_json()
)
NUMBERS = [json.loads(number.model_dump_json()) for number in published()]
SAMPLE = Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=2)
LAUNCHES = "".join(f"{launch.model_dump_json()}\n" for launch in SAMPLE.launches).encode()
RESULTS = SAMPLE.results[0].model_dump_json().encode()
MACHINE = {"processor": "Fast 9000, 8 cores", "kernel": "6.1"}


@contextmanager
def refused(kind: type[OrchestratorError], path: Path) -> Iterator[None]:
    """Like fuzz.refused, with the file's name, and a remedy in the error's hint."""
    with fuzz.refused(kind, str(path)):
        try:
            yield
        except OrchestratorError as error:
            if error.hint:
                raise
            raise AssertionError(f"no remedy: {error}") from error


def document(damaged: Any) -> st.SearchStrategy[bytes]:
    """Generate a YAML document with any value at any place, and any damage of it."""
    whole = yaml_documents.dump(damaged).encode()
    positions = st.tuples(st.sampled_from(fuzz.paths(damaged)), fuzz.VALUES)
    other = positions.map(
        lambda pair: yaml_documents.dump(fuzz.replaced(damaged, *pair)).encode(errors="surrogatepass")
    )
    written = st.tuples(st.sampled_from(list(damaged)), fuzz.WRITTEN).map(
        lambda pair: (
            yaml_documents.dump({key: damaged[key] for key in damaged if key != pair[0]}).encode()
            + f"{pair[0]}: {pair[1]}\n".encode(errors="surrogatepass")
        )
    )
    return st.one_of(fuzz.damaged(whole), other, written)


@given(content=document(WHOLE))
def test_any_study_file_makes_cells_or_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(content)
    with refused(ConfigError, path):
        study = study_files.read(path)
        with fuzz.refused(ConfigError, f"study {study.name}: "):
            matrix.cells(study.measured(), slots=1)


@given(content=document(WHOLE))
def test_any_study_file_of_a_running_study_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / journal.STUDY
    path.write_bytes(content)
    with refused(OrchestratorError, path):
        study = resumable_study.load(tmp_path)
        resumable_study.save(tmp_path, study)
        assert resumable_study.load(tmp_path) == study


def damaged_lines() -> st.SearchStrategy[bytes]:
    """Generate lines of launches.jsonl, damaged anywhere, or one with any value at any key."""
    first, _, rest = LAUNCHES.partition(b"\n")
    return fuzz.damaged(LAUNCHES) | fuzz.damaged_json(first).map(lambda line: line + b"\n" + rest)


@given(content=damaged_lines())
def test_any_launches_are_read_or_refused_with_their_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / journal.LAUNCHES
    path.write_bytes(content)
    with refused(StateError, path):
        launches = journal.read(tmp_path)
        of = studies.study(models=["lenet"], datasets=["cifar10"], batch=[64], repetitions=2)
        schedule = Schedule(of, studies.cells(of), launches)
        progress_messages.remaining(schedule)
        status.summarise(of, launches, None)
        assert journal.read(tmp_path, repair=True) == launches


STARTED = Started(cell=SAMPLE.cells[0], round=0, again=False, run="x", started=1.0, busy=0.0, command=["orchestrator"])


@given(content=fuzz.damaged_json(STARTED.model_dump_json().encode()))
def test_any_note_of_a_started_run_is_read_or_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / journal.STARTED).write_bytes(content)
    with refused(StateError, tmp_path / journal.STARTED), journal.opened(tmp_path) as current:
        assert current.started


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return SAMPLE.write(tmp_path / "study")


def reported(directory: Path) -> None:
    """Create the report in every format but the page, whose drawings take a second."""
    built = content.build(directory)
    for name in formats.FORMATS.keys() - {"html"}:
        assert formats.FORMATS[name](built)


EXTREME = [("images_per_second", 5e-324), ("images_per_second", 1e308), ("busy", -1e308), ("busy", 1e308),
           ("round", -(2**63)), ("started", 0.0), ("seconds", 3e7)]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), EXTREME)
def test_page_draws_extreme_numbers(directory: Path, key: str, value: float) -> None:
    first, *rest = SAMPLE.launches
    lines = [first.model_copy(update={key: value}), *rest]
    (directory / journal.LAUNCHES).write_text("".join(f"{launch.model_dump_json()}\n" for launch in lines))
    assert formats.FORMATS["html"](content.build(directory))


WRONG = [("images_per_second", -1.0), ("step_seconds", -1.0), ("seconds", 1e308), ("seconds", -1.0)]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_impossible_measurement_is_refused_with_line_and_value(directory: Path, key: str, value: float) -> None:
    path = directory / journal.LAUNCHES
    lines = [{**json.loads(line), key: value} for line in LAUNCHES.splitlines()]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for read in (journal.read, content.build):
        with pytest.raises(StateError, match=rf"launches\.jsonl.*line 1: {key}: {value:g}".replace("+", r"\+")):
            read(directory)


@pytest.mark.parametrize(("ranks", "problem"), [(0, "a launch has at least one rank"), (-1, "ranks: -1: ")])
def test_launch_without_ranks_is_refused_with_its_line(directory: Path, ranks: int, problem: str) -> None:
    path = directory / journal.LAUNCHES
    lines = [json.loads(line) for line in LAUNCHES.splitlines()]
    lines[1]["cell"]["ranks"] = ranks
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for read in (journal.read, content.build):
        with pytest.raises(StateError, match=rf"launches\.jsonl.*line 2: cell.*{problem}"):
            read(directory)


def test_results_with_fewer_ranks_than_claimed_are_reported(directory: Path) -> None:
    wrong = fuzz.replaced(json.loads(RESULTS), ("world", "size"), 2**63)
    (directory / "runs" / SAMPLE.results[0].run / "results.json").write_text(json.dumps(wrong))
    reported(directory)


@given(content=document({**WHOLE, "published": NUMBERS[:2]}))
def test_any_study_file_is_reported_or_refused_with_its_name(directory: Path, content: bytes) -> None:
    (directory / journal.STUDY).write_bytes(content)
    with refused(StateError, directory / journal.STUDY):
        reported(directory)


@given(content=damaged_lines())
def test_any_launches_are_reported_or_refused_with_their_name(directory: Path, content: bytes) -> None:
    (directory / journal.LAUNCHES).write_bytes(content)
    with refused(StateError, directory / journal.LAUNCHES):
        reported(directory)


@given(content=fuzz.damaged_json(RESULTS))
def test_any_results_are_reported_or_named(directory: Path, content: bytes) -> None:
    (directory / "runs" / SAMPLE.results[0].run / "results.json").write_bytes(content)
    reported(directory)


@given(content=fuzz.damaged_json(json.dumps(MACHINE).encode()))
def test_any_facts_of_a_machine_are_reported(directory: Path, content: bytes) -> None:
    (directory / "machine.json").write_bytes(content)
    reported(directory)
