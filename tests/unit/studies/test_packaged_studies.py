"""Packaged studies: each can be launched, whole and shrunk, and has the printed numbers."""

from pathlib import Path

import pytest

from orchestrator.config import Config, yaml_documents
from orchestrator.schema.studies import Published
from orchestrator.studies import matrix, settings, study_checks, study_files
from orchestrator.studies.study_definition import Study, agrees
from tests.unit.studies import published

EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "examples").glob("engines-*.yaml"))
NAMES = {"tu-2019", "tu-2019-time", "ghimire", "dey-2022", "malik-2018", "sztaki-2023"}
NAMES |= {"sztaki-2023-frequency", "sztaki-2023-accuracy"}
CELLS = {"sztaki-2023": 64, "sztaki-2023-frequency": 16, "malik-2018": 108, "dey-2022": 12}


def test_every_documented_study_is_packaged() -> None:
    assert set(study_files.names()) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("shrunk", [False, True])
def test_every_cell_of_a_packaged_study_can_be_launched(name: str, shrunk: bool) -> None:
    study = study_files.find(name).model_copy(update={"shrunk": shrunk}).measured()
    cells = study_checks.cells(Config(), study)
    assert all(matrix.base_of(study, cell, cells) for cell in cells)
    if shrunk:
        assert max(cell.nodes or cell.ranks for cell in cells) <= 2
    else:
        assert len(cells) == CELLS.get(name, len(cells))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_cell_of_the_examples_can_be_launched(example: Path) -> None:
    study = study_files.read(example).measured()
    assert len(study_checks.cells(Config(), study)) == 7


FILES = [*sorted(study_files.SHIPPED.glob("*.yaml")), *EXAMPLES]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_schema_for_editors_accepts_every_study_of_ours(file: Path) -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(Study.model_json_schema())
    assert [error.message for error in validator.iter_errors(yaml_documents.read(file))] == []


def test_schema_for_editors_refuses_wrong_values() -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(Study.model_json_schema())
    right = {"name": "tiny", "models": "lenet", "datasets": ["mnist"], "until": {"time": "2h"}, "repetitions": 6}
    assert validator.is_valid({**right, "ranks": [1, 2]})
    wrong = ({"ranks": 0}, {"ranks": [0]}, {"models": 3}, {"rank": 1}, {"repetitions": "6"}, {"nodes": 101})
    assert [validator.is_valid({**right, **changes}) for changes in wrong] == [False] * len(wrong)


SHRUNK_TO_64 = {"dey-2022", "ghimire", "sztaki-2023", "sztaki-2023-frequency", "tu-2019"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_studies_that_shrink_to_few_steps_evaluate_few_samples(name: str) -> None:
    whole = study_files.find(name)
    shrunk = whole.model_copy(update={"shrunk": True})
    for study, expected in ((whole, None), (shrunk, 64 if name in SHRUNK_TO_64 else None)):
        measured = study.measured()
        cell = study_checks.cells(Config(), measured)[0]
        assert settings.of_cell(Config(), measured, cell).train.test_samples == expected
    assert not (shrunk.measured().until.top1 and whole.shrink.test_samples)


def test_printed_numbers_of_dey_2022_equal_the_paper() -> None:
    def numbers(rows: list[Published]) -> set[tuple[object, ...]]:
        return {(frozenset(row.cell.items()), row.metric, row.column, row.value) for row in rows}

    study = study_files.find("dey-2022")
    assert numbers(study.published) == numbers(published.dey())
    cells = study_checks.cells(Config(), study)
    assert all(any(agrees(cell, row.cell) for cell in cells) for row in study.published)
