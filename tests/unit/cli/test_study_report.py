"""`study report`: formats, output files, and refusals."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from tests.unit.studies.sample_study import Sample


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return Sample(engines=["ours"], models=["lenet"], ranks=[1, 2], rounds=6).write(tmp_path / "sample-study")


def test_page_is_written_into_the_study(study: Path) -> None:
    result = CliRunner().invoke(app, ["study", "report", str(study)])
    assert result.exit_code == 0
    assert (study / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("kind", "begin"), [("markdown", "## Study sample"), ("latex", "% Study"), ("csv", "key,"), ("launches", "key,")]
)
def test_other_formats_go_to_standard_output(study: Path, kind: str, begin: str) -> None:
    result = CliRunner().invoke(app, ["study", "report", str(study), "--format", kind])
    assert result.exit_code == 0
    assert result.stdout.startswith(begin)


def test_output_names_the_file(study: Path, tmp_path: Path) -> None:
    path = tmp_path / "table.tex"
    CliRunner().invoke(app, ["study", "report", str(study), "--format", "latex", "--output", str(path)])
    assert "booktabs" in path.read_text()


def test_unwritable_file_is_an_error(study: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["study", "report", str(study), "--output", str(tmp_path / "no" / "page.html")])
    assert result.exit_code != 0
    assert "No such file" in str(result.exception)


def test_directory_without_a_study_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["study", "report", str(tmp_path)])
    assert "holds no study" in str(result.exception)


def test_output_into_a_pipe_leaves_the_pipe(study: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    result = CliRunner().invoke(app, ["study", "report", str(study), "--format", "csv", "-o", str(tmp_path / "pipe")])
    assert result.exit_code == 0
    assert os.read(reader, 4) == b"key,"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("words", [(), ("sample",), ("sample-study",)])
def test_study_is_found_by_name(study: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.chdir(study.parent)
    assert CliRunner().invoke(app, ["study", "report", *words]).exit_code == 0
    assert (study / "report.html").is_file()
