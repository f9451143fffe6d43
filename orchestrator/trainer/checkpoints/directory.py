"""Directory of a run's checkpoints, each of which is complete or absent. The newest and the best are kept.

A checkpoint gets its name once it is complete and on the disk, and counts once index.json, replaced atomically, lists
it; directories that are no longer listed are then removed.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from orchestrator.schema import Checkpoints, Kept

INDEX, UNFINISHED = "index.json", ".unfinished"
AGAIN = "-again"  # suffix of a name that the index has already


def read(directory: Path) -> Checkpoints:
    """Read the index in ``directory``.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not a valid index.
    """
    return Checkpoints.model_validate_json((directory / INDEX).read_text())


class Storage:
    """The checkpoints in ``directory``: the newest ``most`` of them, and the best by test top-1."""

    def __init__(self, directory: Path, most: int) -> None:
        self.directory, self.most, self.index = directory, most, Checkpoints()

    @property
    def newest(self) -> "Kept | None":
        return self.index.kept[-1] if self.index.kept else None

    def add(self, new: Kept, fill: Callable[[Path], object]) -> None:
        """Store a checkpoint, which ``fill`` writes into the empty directory that it is given.

        A checkpoint of the same name stays until the index lists the new one.
        """
        if new.name in {kept.name for kept in self.index.kept}:
            new = new.model_copy(update={"name": f"{new.name}{AGAIN}"})
        unfinished, finished = self.directory / UNFINISHED, self.directory / new.name
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        fill(unfinished)
        shutil.rmtree(finished, ignore_errors=True)
        for path in [*unfinished.iterdir(), unfinished]:
            _flush(path)
        unfinished.rename(finished)
        _flush(self.directory)
        self.name(new)

    def name(self, new: Kept) -> None:
        """List ``new`` as the newest, in place of a checkpoint of the same name, and remove those no longer kept."""
        known = [*(kept for kept in self.index.kept if _position(kept) != _position(new)), new]
        evaluated = [kept for kept in known if kept.top1 is not None]
        best = max(evaluated, key=lambda kept: kept.top1 or 0.0).name if evaluated else None
        newest = known[-self.most :]
        self.index = Checkpoints(kept=[kept for kept in known if kept in newest or kept.name == best], best=best)
        self.index.write(self.directory / INDEX)
        _flush(self.directory)
        for path in self.directory.iterdir():
            if path.is_dir() and path.name not in {kept.name for kept in self.index.kept}:
                shutil.rmtree(path, ignore_errors=True)


def _position(kept: Kept) -> str:
    """Return the name without the suffix for a repeated write."""
    return kept.name.removesuffix(AGAIN)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
