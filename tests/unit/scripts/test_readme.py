"""Names in README and documentation exist."""

import re
from pathlib import Path

import pytest

from orchestrator import packaged_files

ROOT = packaged_files.PACKAGE.parent
README = (ROOT / "README.md").read_text()
DOCS = sorted((ROOT / "docs").rglob("*.md"))
TROUBLES = (ROOT / "docs" / "troubleshooting.md").read_text()
TARGETS = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
SYMPTOMS = re.findall(r"^### `(.+)`$", TROUBLES, re.MULTILINE)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_links_of_the_readme_lead_to_files() -> None:
    links = {link.partition("#")[0] for link in re.findall(r"[^!]\[[^]]+\]\(([^)]+)\)", README)}
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_named_make_target_exists() -> None:
    pages = [README, (ROOT / "CONTRIBUTING.md").read_text(), *(page.read_text() for page in DOCS)]
    named = {name for page in pages for name in re.findall(r"`make ([a-z0-9-]+)|^    make ([a-z0-9-]+)", page, re.M)}
    assert {"".join(name) for name in named} <= TARGETS


def test_every_path_that_contributing_names_exists() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    named = {path for path in re.findall(r"`([\w./*-]+)`", contributing) if path.partition("/")[0] in rooms}
    assert len(named) > 30
    assert [path for path in sorted(named) if not (path.endswith("/NAME") or list(ROOT.glob(path)))] == []


def test_every_module_that_contributing_names_exists() -> None:
    named = set(re.findall(r"`(\w+\.py)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named <= {path.name for path in packaged_files.PACKAGE.rglob("*.py")}


def test_every_target_of_tests_and_benchmarks_is_listed() -> None:
    listed = set(re.findall(r"^\| `make ([a-z0-9-]+)", (ROOT / "docs" / "make-targets.md").read_text(), re.MULTILINE))
    assert TARGETS - listed <= {"help", "setup", "clean"}


def test_troubleshooting_has_many_symptoms() -> None:
    assert len(SYMPTOMS) > 25


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_symptom_equals_a_message_of_the_code(symptom: str, sources: str) -> None:
    """Words in capitals stand for values; the longest part between them must occur in the sources."""
    parts = [part.strip(" :") for part in re.split(r"\b[A-Z]{1,}\b|…", symptom)]
    assert max(parts, key=len) in sources


@pytest.fixture(scope="module")
def sources() -> str:
    """Return the text of our programs and of Ansible's roles, with VALUE for each expression."""
    directories = {Path(packaged_files.PACKAGE): (".py", ".sh"), packaged_files.directory("ansible"): (".py", ".yml")}
    files = [path for top, kinds in directories.items() for path in top.rglob("*") if path.suffix in kinds]
    text = "".join(path.read_text() for path in files)
    whole = re.sub(r'"\s*f?"', "", re.sub(r"\{+[^{}]*\}+", "VALUE", text))
    return re.sub(r"\s+", " ", whole)


def test_decision_records_are_numbered_without_gaps_and_complete() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    parts = ["Context", "Decision", "Consequences", "Refused"]
    assert [path.name for path in records if re.findall(r"^## (.+)$", path.read_text(), re.M) != parts] == []
