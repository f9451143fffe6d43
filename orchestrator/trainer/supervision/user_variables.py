"""Variables that a user sets for the ranks of a run; they may hold passwords.

The control side writes them to a file that only the account of the runs can read. Ranks read it as they start, the
supervisor removes it at the end of the run. Standard library only: see rank_record.
"""

import json
from pathlib import Path

from orchestrator.launch_layout import RAY_TOKEN

FILE = "environment.json"  # in the run's directory; absent if the user set no variables


def read(run_directory: Path) -> dict[str, str]:
    """Read the variables that the user set for the ranks of a run."""
    try:
        values: dict[str, str] = json.loads((run_directory / FILE).read_text())
    except FileNotFoundError:
        return {}
    return values


def remove(run_directory: Path) -> None:
    """Remove the variables of a run whose ranks have ended, and the token of its Ray cluster."""
    for name in (FILE, RAY_TOKEN):
        (run_directory / name).unlink(missing_ok=True)
