"""Write the dashboards' JSON, by default to the repository: ``python -m scripts.dashboards [DIRECTORY]``."""

import sys
from collections.abc import Iterator
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from scripts.dashboards import cluster, compare, gpus, network, training
from scripts.dashboards.queries import FOLDER

BUILDERS = (cluster.build, training.build, gpus.build, network.build, compare.build)


def texts() -> Iterator[tuple[str, str]]:
    """Yield each dashboard's file name and JSON, with keys in a stable order."""
    for build in BUILDERS:
        board = build()
        yield f"{board.uid}.json", JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(board) + "\n"


def main(folder: Path) -> None:
    """Write all dashboards into `folder`."""
    for name, text in texts():
        (folder / name).write_text(text)
        print(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
