"""Directory of a run's checkpoints, each of which is complete or absent. The newest and the best are kept.

A checkpoint gets its name once it is complete and on the disk, and counts once index.json, replaced atomically, lists
it; directories that are no longer listed are then removed.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from orchestrator.schema import CheckpointEntry, Checkpoints
from orchestrator.schema.atomic_write import flush

INDEX, UNFINISHED = "index.json", ".unfinished"
REPEATED_SUFFIX = "-again"  # suffix of a name that the index has already


def read(directory: Path) -> Checkpoints:
    """Read the index in ``directory``.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not a valid index.
    """
    return Checkpoints.model_validate_json((directory / INDEX).read_text())


class Storage:
    """The checkpoints in ``directory``: the newest ``limit`` of them, and the best by test top-1."""

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory, self.limit, self.index = directory, limit, Checkpoints()

    @property
    def newest(self) -> "CheckpointEntry | None":
        return self.index.entries[-1] if self.index.entries else None

    def add(self, new: CheckpointEntry, fill: Callable[[Path], object]) -> None:
        """Store a checkpoint, which ``fill`` writes into the empty directory that it is given.

        A checkpoint of the same name stays until the index lists the new one.
        """
        if new.name in {entry.name for entry in self.index.entries}:
            new = new.model_copy(update={"name": f"{new.name}{REPEATED_SUFFIX}"})
        unfinished, finished = self.directory / UNFINISHED, self.directory / new.name
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            fill(unfinished)
        except Exception:  # a part would fill the storage that has no space
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        shutil.rmtree(finished, ignore_errors=True)
        for path in [*unfinished.iterdir(), unfinished]:
            flush(path)
        unfinished.rename(finished)
        flush(self.directory)
        self.publish(new)

    def publish(self, new: CheckpointEntry) -> None:
        """List ``new`` as the newest, in place of a checkpoint of the same name, and remove those no longer kept."""
        entries = [*(entry for entry in self.index.entries if _base_name(entry) != _base_name(new)), new]
        evaluated = [entry for entry in entries if entry.top1 is not None]
        best = max(evaluated, key=lambda entry: entry.top1 or 0.0).name if evaluated else None
        kept = [*entries[-self.limit :], Checkpoints(entries=entries).newest_whole]
        listed = [entry for entry in entries if entry in kept or entry.name == best]
        self.index = Checkpoints(entries=listed, best=best)
        self.index.write(self.directory / INDEX)
        flush(self.directory)
        for path in self.directory.iterdir():
            if path.is_dir() and path.name not in {entry.name for entry in self.index.entries}:
                shutil.rmtree(path, ignore_errors=True)


def _base_name(entry: CheckpointEntry) -> str:
    """Return the name without the suffix for a repeated write."""
    return entry.name.removesuffix(REPEATED_SUFFIX)
