"""List and remove overlays: ``python -m orchestrator.trainer.packages.list_and_remove DIRECTORY [HASH ... or --all]``.

Removes the overlays named, or all, unfinished ones too, and prints those that are left, an :class:`Overlays`.
"""

import sys
from pathlib import Path

from orchestrator.schema.packages import Overlays
from orchestrator.trainer.packages import overlays

ALL = "--all"


def main(directory: Path, hashes: list[str]) -> None:
    """Remove, and print what is left; end the program if another one changes overlays."""
    if hashes:
        with overlays.locked(directory, lambda: sys.exit("packages are being installed: wait for it")):
            for path in overlays.directories(directory) if hashes == [ALL] else (directory / name for name in hashes):
                overlays.remove(path)
    print(Overlays(overlays=overlays.every(directory)).model_dump_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
