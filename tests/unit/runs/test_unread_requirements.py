"""Note on files of other tools that list packages."""

from pathlib import Path

import pytest

from orchestrator.runs import unread_requirements
from tests.unit.conftest import Cli


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("environment.yml", "name: mine\n", "environment.yml is not read; write the packages that the image lacks"),
        ("Pipfile", "", "Pipfile is not read"),
        ("setup.py", "", "setup.py is not read; write the line `-e .` into requirements.txt"),
        ("pyproject.toml", "[tool.poetry.dependencies]\nemoji = '*'\n", "pyproject.toml is not read"),
        ("pyproject.toml", "[tool.ruff]\n", ""),
        ("conf.yaml", "", ""),
    ],
)
def test_file_of_another_tool_is_named(tmp_path: Path, name: str, text: str, note: str) -> None:
    (tmp_path / name).write_text(text)
    assert note in unread_requirements.note(tmp_path)
    assert bool(unread_requirements.note(tmp_path)) == bool(note)


def test_dry_run_names_an_unread_file_only_if_packages_are_wanted(tmp_path: Path, cli: Cli) -> None:
    for name in ("train.py", "environment.yml"):
        (tmp_path / name).touch()
    command = ("--", "python", str(tmp_path / "train.py"))
    assert "environment.yml is not read" in cli("run", "--dry-run", *command).stderr
    assert "environment.yml" not in cli("run", "--dry-run", "--no-packages", *command).stderr
    (tmp_path / "requirements.txt").write_text("emoji\n")
    assert "environment.yml" not in cli("run", "--dry-run", *command).stderr
