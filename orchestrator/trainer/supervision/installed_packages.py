"""Python packages that a run can import: the image's, and those of the overlay whose directory begins the PATH."""

import json
import os
from contextlib import suppress
from importlib import metadata
from pathlib import Path

FILE = "packages.json"  # in the run's directory, and in an overlay's


def write(run_directory: Path) -> None:
    """Write ``schema.packages.Installed``. A disk without room or a damaged package is no reason to end a run."""
    with suppress(Exception):
        (run_directory / FILE).write_text(json.dumps(packages(), indent=2, sort_keys=True) + "\n")


def packages() -> dict[str, dict[str, str]]:
    """Return versions by name, of the image and of the overlay. An interrupted pip leaves packages without a name."""
    overlay = Path(os.environ.get("PATH", "").partition(os.pathsep)[0]).parent / FILE
    found = (dist.metadata for dist in metadata.distributions())  # reads a file at each access
    return {
        "image": {facts["Name"]: facts["Version"] for facts in found if facts["Name"] and facts["Version"]},
        "overlay": json.loads(overlay.read_text())["packages"] if overlay.is_file() else {},
    }
