"""docs/modules.md equals the docstrings, and each module has one."""

from scripts import write_module_map


def test_module_map_equals_the_docstrings() -> None:
    assert write_module_map.PAGE.read_text() == write_module_map.page(), "run `python -m scripts.write_module_map`"


def test_module_map_has_no_escaped_bars() -> None:
    r"""GitHub shows ``\|`` of a table's code as a bar, mkdocs with the backslash."""
    assert "\\|" not in write_module_map.page()


def test_each_module_says_what_it_does() -> None:
    silent = [path for path in write_module_map.SOURCES.rglob("*.py") if not write_module_map.summary(path)]
    assert not silent
