"""Note on files of other tools that list packages, if a script's directory has them in place of a file that is read."""

import re
from pathlib import Path

from orchestrator.runs.requirements_file import read_text

OF_OTHER_TOOLS = ("environment.yml", "environment.yaml", "conda.yaml", "Pipfile", "setup.py")
POETRY = re.compile(r"^\s*\[\s*tool\.poetry\.dependencies\s*\]", re.MULTILINE)


def note(directory: Path) -> str:
    """Return what to tell a user whose packages are listed only in files that are not read; "" if there is none.

    Args:
        directory: Directory of a script, without a file that :func:`orchestrator.runs.requirements.find` reads.
    """
    pyproject = directory / "pyproject.toml"
    of_poetry = pyproject.is_file() and POETRY.search(read_text(pyproject))
    names = [*(["pyproject.toml"] if of_poetry else []), *OF_OTHER_TOOLS]
    unread = next((name for name in names if (directory / name).is_file()), None)
    if unread is None:
        return ""
    lines = "the line `-e .`" if unread == "setup.py" else "the packages that the image lacks"
    return f"no packages are installed: {unread} is not read; write {lines} into requirements.txt beside it"
