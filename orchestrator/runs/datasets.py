"""Data sets on the control side: find or download, check, and copy to the storage that all nodes share."""

import hashlib
import http.client
import json
import math
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from orchestrator import process, state
from orchestrator.cluster import MIN_SHARED_FREE, SHARED
from orchestrator.config import expanded
from orchestrator.errors import ConfigError, OrchestratorError, PreflightError
from orchestrator.recipes import datasets
from orchestrator.schema import MANIFEST
from orchestrator.ssh import Session

TIMEOUT, DOWNLOAD_SECONDS = 20.0, 3600.0  # seconds without a byte; seconds for a file
STALE_SECONDS = 3600.0
SHARD_BYTES = 128 << 20  # long enough to be read at a disk's full speed, and to be worth a file of its own

REMEDY = "`orchestrator datasets` lists the source of its files; download this one again, or name another --data DIR"
# `python -m` would import modules from the user's working directory; -P of Python 3.11 prevents it in the same way.
SAFE = "import sys; sys.path[:] = filter(None, sys.path); import runpy; runpy.run_module({!r}, run_name='__main__')"
FORMATS = ("-c", SAFE.format("orchestrator.trainer.data.inspect_dataset"))


@dataclass(frozen=True)
class FoundDataset:
    """A complete data set in a local directory.

    ``train`` and ``test`` are numbers of samples; ``shards`` is true if the files are TFRecord shards.
    """

    dataset: str
    directory: Path
    files: list[str]
    train: int
    test: int
    note: str
    shards: bool = False

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
        wanted = {split: max(ranks, math.ceil(count * each / SHARD_BYTES)) for split, count in images.items()}
        return {split: min(count, wanted[split]) for split, count in images.items()}


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
    return None if dataset == "synthetic" else require(dataset, data, on_progress, remedy)


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
    directory = expanded("train.data", data) if data else download(dataset, on_progress)
    argv = [sys.executable, *FORMATS, dataset, str(directory), *(["skip"] if remedy is None else [])]
    facts: dict[str, Any] = json.loads(process.run("check data", argv))
    if "error" in facts:
        raise ConfigError([f"train.data: {facts['error']}"], (remedy or "") if facts["damaged"] else REMEDY)
    return FoundDataset(dataset, directory, **facts)


def download(dataset: str, on_progress: Callable[[str], None]) -> Path:
    """Return the cache directory of ``dataset``; download and check published files that are missing from it."""
    entry = datasets()[dataset]
    if "files" not in entry:
        raise ConfigError([f"train.data: {dataset} cannot be downloaded without {entry['needs']}: pass its directory"])
    directory = state.cache() / "datasets" / dataset
    for name, checksum in entry["files"].items():
        if not (directory / name).exists():
            on_progress(f"downloading {name}")
            _fetch(f"{entry['site']}/{name}", directory / name, checksum, entry["bytes"])
    return directory


def _fetch(url: str, target: Path, checksum: str, most: int) -> None:
    """Download through a temporary file of its own, since another cluster may download the same file."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{target.name}.*"):  # left by a killed command
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.unlink(missing_ok=True)
        with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.") as partial:
            digest = _copy(url, partial, most)
            if digest != checksum:
                problem = f"{url} has SHA-256 {digest}, expected {checksum}"
                raise PreflightError(problem, "try again, or use --data DIR")
            Path(partial.name).chmod(0o644)
            target.unlink(missing_ok=True)
            target.hardlink_to(partial.name)
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        hint = "name a directory that has the data: --data DIR"
        raise PreflightError(f"{url} cannot be downloaded: {reason}", hint) from error


def _copy(url: str, target: IO[bytes], most: int) -> str:
    """Copy and return the SHA-256. Raises OSError if there are more than ``most`` bytes, or the copy takes too long."""
    digest, left, deadline = hashlib.sha256(), most, time.monotonic() + DOWNLOAD_SECONDS
    with urllib.request.urlopen(url, timeout=TIMEOUT) as source:
        while piece := source.read1(1 << 20):
            left -= len(piece)
            if left < 0:
                raise OSError(f"it has more than {most:,} bytes, which the whole data set has")
            if time.monotonic() > deadline:
                raise OSError(f"it took more than {DOWNLOAD_SECONDS:.0f} s")
            digest.update(piece)
            target.write(piece)
    target.flush()
    return digest.hexdigest()


def upload(head: Session, data: FoundDataset, on_progress: Callable[[str], None]) -> str:
    """Copy the data set to the shared storage if it is not there yet.

    Args:
        head: Session on the head.
        data: Data set on this machine.
        on_progress: Called with a line of progress.

    Returns:
        Its directory on the nodes.

    Raises:
        ConfigError: The shared storage has too little space, or a local file cannot be read.
        CommandFailed: The head cannot store the files.
    """
    target = data.remote
    if head.run(["test", "-d", target]).exit_code == 0:
        return target
    unfinished = _clear(head, data)
    _require_space(head, data.dataset, data.size)
    head.must("free space for data", ["mkdir", "-p", unfinished])
    total = len(data.files)
    files = {name: data.directory / name for name in data.files}
    try:
        head.send(files, unfinished, lambda count: on_progress(f"{count} of {total} files"))
    except OrchestratorError:
        head.run(["rm", "-rf", unfinished])
        raise
    head.must("finish placing data", ["mv", "--no-target-directory", unfinished, target])
    return target


def prepared(head: Session, data: FoundDataset) -> str | None:
    """Return the directory of the prepared shards on the nodes; None if there are none, or some are missing."""
    answer = head.run(["test", "-f", f"{data.records}/{MANIFEST}"])
    return data.records if answer.exit_code == 0 else None


def all_prepared(head: Session, dataset: str | None) -> list[str]:
    """Return the directories of all prepared shards on the shared storage, or only those of ``dataset``."""
    pattern = f"{dataset or '*'}-*"
    argv = [
        "find",
        f"{SHARED}/data",
        "-mindepth",
        "2",
        "-maxdepth",
        "2",
        "-path",
        f"{SHARED}/data/{pattern}/{MANIFEST}",
    ]
    return sorted(str(Path(line).parent) for line in head.run(argv).output.splitlines())


def require_space_for_records(head: Session, data: FoundDataset) -> None:
    """Raise ConfigError if the parts of data set and shards that are still missing do not fit on the shared storage."""
    _clear(head, data)
    size = 0 if head.run(["test", "-d", data.remote]).exit_code == 0 else data.size
    if not data.shards:
        listing = head.run(["du", "--summarize", "--bytes", data.records]).output.split()
        size += max(0, data.size - int(listing[0] if listing else 0))
    _require_space(head, f"{data.dataset}, and its shards where there are none yet,", size)


def _clear(head: Session, data: FoundDataset) -> str:
    """Remove what an interrupted copy of the data set left; return the directory to copy to."""
    unfinished = f"{data.remote}.unfinished"
    head.must("free space for data", ["rm", "-rf", unfinished])
    return unfinished


def _require_space(head: Session, what: str, size: int) -> None:
    """Raise ConfigError if ``size`` bytes leave less free space than runs need."""
    listing = head.must("look for room", ["df", "--output=avail", "--block-size=1", SHARED])
    free = int(listing.split()[-1])
    if size + MIN_SHARED_FREE > free:
        room = f"{what} has {size / 2**30:.1f} GiB, {SHARED} on the nodes has {free / 2**30:.1f} GiB free"
        raise ConfigError([f"train.data: {room}, of which {MIN_SHARED_FREE >> 30}"])
