"""Data sets on the control side: find or download them, and check them."""

import hashlib
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator import process, progress, recipes
from orchestrator.cluster import SHARED
from orchestrator.config import expanded
from orchestrator.errors import ConfigError
from orchestrator.runs import dataset_downloads

SHARD_BYTES = 128 << 20  # long enough to be read at a disk's full speed, and to be worth a file of its own

REMEDY = "`orchestrator datasets` lists the source of its files; download this one again, or name another --data DIR"
# `python -m` would import modules from the user's working directory; -P of Python 3.11 prevents it in the same way.
SAFE = "import sys; sys.path[:] = filter(None, sys.path); import runpy; runpy.run_module({!r}, run_name='__main__')"
FORMATS = ("-c", SAFE.format("orchestrator.trainer.data.inspect_dataset"))


@dataclass(frozen=True)
class FoundDataset:
    """A complete data set in a local directory.

    ``train`` and ``test`` are numbers of samples; ``shards`` is true if the files are TFRecord shards.
    ``classes`` is the number of classes in class folders; 0 if it is fixed or not known.
    """

    dataset: str
    directory: Path
    files: list[str]
    train: int
    test: int
    note: str
    shards: bool = False
    classes: int = 0

    @cached_property
    def remote(self) -> str:
        """Return its directory on the nodes; the name changes with names, sizes and times of the files."""
        digest = hashlib.sha256()
        for name in self.files:
            status = (self.directory / name).stat()
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        return f"{SHARED}/data/{self.dataset}-{digest.hexdigest()[:12]}"

    @property
    def records(self) -> str:
        """Return the directory of its TFRecord shards on the nodes: the data set itself, or shards prepared from it."""
        return self.remote if self.shards else f"{self.remote}-records"

    @cached_property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum((self.directory / name).stat().st_size for name in self.files)

    def shard_counts(self, ranks: int) -> dict[str, int]:
        """Return the number of shards to make of each split: of about SHARD_BYTES, and at least one for every rank."""
        images = {"train": self.train, "val": self.test}
        each = self.size / (self.train + self.test)
        counts = {split: max(ranks, math.ceil(count * each / SHARD_BYTES)) for split, count in images.items()}
        return {split: min(count, counts[split]) for split, count in images.items()}


def find(
    dataset: str, data: Path | None, on_progress: Callable[[str], None], remedy: str | None = None
) -> FoundDataset | None:
    """Find a data set in ``data``, else in the download cache, else download it.

    Args:
        dataset: Name of the data set.
        data: Directory of the data set, if the user named one.
        on_progress: Called with a line of progress.
        remedy: Hint of the error about unreadable samples; None to skip such samples.

    Returns:
        The data set; None if it is synthetic and has no files.

    Raises:
        ConfigError: The directory does not hold the data set.
        PreflightError: The data set cannot be downloaded.
    """
    if dataset != "synthetic":
        return require(dataset, data, on_progress, remedy)
    if data:
        progress.note(
            f"train.data: {data} is not read: data set synthetic has no files, its images are made on the nodes"
        )
    return None


def require(
    dataset: str, data: Path | None, on_progress: Callable[[str], None], remedy: str | None = None
) -> FoundDataset:
    """Find a data set that has files.

    Args:
        dataset: Name of the data set.
        data: Directory of the data set, if the user named one.
        on_progress: Called with a line of progress.
        remedy: Hint of the error about unreadable samples; None to skip such samples.

    Returns:
        The data set.

    Raises:
        ConfigError: The directory does not hold the data set.
        PreflightError: The data set cannot be downloaded.
    """
    directory = expanded("train.data", data) if data else dataset_downloads.download(dataset, on_progress)
    argv = [sys.executable, *FORMATS, dataset, str(directory), *(["skip"] if remedy is None else [])]
    facts: dict[str, Any] = json.loads(process.run("check data", argv))
    if "error" in facts:
        raise ConfigError([f"train.data: {facts['error']}"], (remedy or "") if facts["damaged"] else REMEDY)
    facts["note"] = facts["note"] or _shortfall(dataset, facts)
    return FoundDataset(dataset, directory, **facts)


def _shortfall(dataset: str, facts: dict[str, Any]) -> str:
    """Return a note if fewer samples are here than were published, as after an interrupted copy; else "".

    Class folders with another number of classes are another data set, and missing shards are an error already.
    """
    published = recipes.datasets()[dataset]
    if facts["shards"] or facts["classes"] not in (0, published["classes"]):
        return ""
    splits = [split for split in ("train", "test") if facts[split] < published.get(split, 0)]
    counts = [f"{facts[split]:,} of {published[split]:,} {split} {recipes.samples(dataset)}" for split in splits]
    return f"{' and '.join(counts)} of the published data set are here" if counts else ""
