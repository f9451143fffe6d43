"""Write docs/modules.md, what each module does, from the docstrings: ``python -m scripts.write_module_map``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "orchestrator"
PAGE = ROOT / "docs" / "modules.md"
INTRODUCTION = """# Modules

<!-- Made by `python -m scripts.write_module_map` from the docstrings; a test compares this page with the code. -->

Each package with its modules, and the first sentence of their docstrings. [Architecture](architecture.md) says which
package imports which, and how the data flows between them.
"""


def summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring as Markdown in one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    words = " ".join(docstring.partition("\n\n")[0].split())
    words = re.sub(r":\w+:`[~.]?([^`]+)`", r"`\1`", words).replace("``", "`")
    return words.replace("|", "\\|")


def section(directory: Path) -> Iterator[str]:
    """Yield the lines of a package: its name, its docstring, and a table of its modules."""
    name = ".".join(directory.relative_to(ROOT).parts)
    yield f"\n## {name}\n"
    yield summary(directory / "__init__.py")
    modules = [path for path in sorted(directory.glob("*.py")) if path.stem not in ("__init__", "__main__")]
    if modules:
        yield "\n| module | |\n|---|---|"
        yield from (f"| `{path.stem}` | {summary(path)} |" for path in modules)


def page() -> str:
    """Return the page, with the packages in alphabetical order."""
    packages = sorted(path.parent for path in SOURCES.rglob("__init__.py"))
    return INTRODUCTION + "".join(f"{line}\n" for directory in packages for line in section(directory))


if __name__ == "__main__":
    PAGE.write_text(page())
