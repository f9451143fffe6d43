"""Examples on pages of the documentation are the files that tests run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = sorted((DOCS / "examples" / "distribute").glob("*.py"))
PAGE = (DOCS / "guide" / "distribute-a-script.md").read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_page_shows_the_example_and_its_command(example: Path) -> None:
    command = re.escape(f"    orchestrator run docs/examples/distribute/{example.name}\n")
    [shown] = re.findall(rf"^{command}\n```python\n(.*?)```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown == example.read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_marks_every_change_that_the_page_explains(example: Path) -> None:
    explained = re.findall(r"^\| (\d) \| ", PAGE, re.MULTILINE)
    assert re.findall(r"(?<=[#,] )(\d)\. ", example.read_text()) == explained
