"""Data sets on the control side: found or downloaded, checked, and placed where every node reads them."""

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
from orchestrator.ssh import Session

TIMEOUT, DOWNLOAD_SECONDS = 20.0, 3600.0  # without a byte; for a file
STALE_SECONDS = 3600.0
SHARD_BYTES = 128 << 20  # long enough to be read at a disk's full speed, and to be worth a file of its own
MANIFEST = "manifest.json"
REMEDY = "`orchestrator datasets` says where its files are from; get this one again, or name another --data DIR"
# `python -m` would import what lies in the working directory, which is the user's; -P of Python 3.11 is this.
SAFE = "import sys; sys.path[:] = filter(None, sys.path); import runpy; runpy.run_module({!r}, run_name='__main__')"
FORMATS = ("-c", SAFE.format("orchestrator.trainer.data.formats"))


@dataclass(frozen=True)
class Found:
    """A whole data set in a local directory."""

    dataset: str
    directory: Path
    files: list[str]
    train: int
    test: int
    note: str
    shards: bool = False

    @cached_property
    def remote(self) -> str:
        """Where it stands on the nodes: a name that changes with the files' names, sizes and times."""
        digest = hashlib.sha256()
        for name in self.files:
            status = (self.directory / name).stat()
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        return f"{SHARED}/data/{self.dataset}-{digest.hexdigest()[:12]}"

    @property
    def records(self) -> str:
        """Where its TFRecord shards stand on the nodes: those that it consists of, or that are prepared of it."""
        return self.remote if self.shards else f"{self.remote}-records"

    @cached_property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum((self.directory / name).stat().st_size for name in self.files)

    def shard_counts(self, ranks: int) -> dict[str, int]:
        """How many shards to make of each split: of SHARD_BYTES, and at least one for every rank."""
        images = {"train": self.train, "val": self.test}
        each = self.size / (self.train + self.test)
        wanted = {split: max(ranks, math.ceil(count * each / SHARD_BYTES)) for split, count in images.items()}
        return {split: min(count, wanted[split]) for split, count in images.items()}


def find(
    dataset: str, data: Path | None, on_progress: Callable[[str], None], remedy: str | None = None
) -> Found | None:
    """The data set in ``data``, else among the downloads, else downloaded; None where it needs no files.

    Samples that cannot be read are an error with this ``remedy``, or None where they are to be skipped.
    Raises ConfigError where the directory does not hold it, PreflightError where it cannot be had.
    """
    return None if dataset == "synthetic" else require(dataset, data, on_progress, remedy)


def require(dataset: str, data: Path | None, on_progress: Callable[[str], None], remedy: str | None = None) -> Found:
    """The same for a data set that has files."""
    directory = expanded("train.data", data) if data else download(dataset, on_progress)
    argv = [sys.executable, *FORMATS, dataset, str(directory), *(["skip"] if remedy is None else [])]
    facts: dict[str, Any] = json.loads(process.run("check data", argv))
    if "error" in facts:
        raise ConfigError([f"train.data: {facts['error']}"], (remedy or "") if facts["damaged"] else REMEDY)
    return Found(dataset, directory, **facts)


def download(dataset: str, on_progress: Callable[[str], None]) -> Path:
    """The directory with the published files of ``dataset``, fetched and checked where they are not there."""
    entry = datasets()[dataset]
    if "files" not in entry:
        raise ConfigError([f"train.data: {dataset} cannot be downloaded without {entry['needs']}: name its directory"])
    directory = state.cache() / "datasets" / dataset
    for name, checksum in entry["files"].items():
        if not (directory / name).exists():
            on_progress(f"downloading {name}")
            _fetch(f"{entry['site']}/{name}", directory / name, checksum, entry["bytes"])
    return directory


def _fetch(url: str, target: Path, checksum: str, most: int) -> None:
    """A file of its own while it comes: another cluster may fetch the same."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{target.name}.*"):  # by a command that was killed
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
    """The SHA-256 of what was copied. Raises OSError where it is more than ``most`` bytes, or takes too long."""
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


def place(head: Session, found: Found, on_progress: Callable[[str], None]) -> str:
    """Copy the data set to the shared storage, where it is not there; returns its directory on the nodes."""
    target = found.remote
    if head.run(["test", "-d", target]).exit_code == 0:
        return target
    unfinished = _clear(head, found)
    _require_space(head, found.dataset, found.size)
    head.must("make room for data", ["mkdir", "-p", unfinished])
    total = len(found.files)
    files = {name: found.directory / name for name in found.files}
    try:
        head.send(files, unfinished, lambda count: on_progress(f"{count} of {total} files"))
    except OrchestratorError:
        head.run(["rm", "-rf", unfinished])
        raise
    head.must("finish placing data", ["mv", "--no-target-directory", unfinished, target])
    return target


def prepared(head: Session, found: Found) -> str | None:
    """The directory of the data set's prepared shards on the nodes; None where there are none, or not all yet."""
    answer = head.run(["test", "-f", f"{found.records}/{MANIFEST}"])
    return found.records if answer.exit_code == 0 else None


def all_prepared(head: Session, dataset: str | None) -> list[str]:
    """The directories of every data set that has prepared shards on the shared storage, or of ``dataset`` alone."""
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


def require_space_for_records(head: Session, found: Found) -> None:
    """Raises ConfigError where the data set and its shards, less what is there of both, have too little room."""
    _clear(head, found)
    size = 0 if head.run(["test", "-d", found.remote]).exit_code == 0 else found.size
    if not found.shards:
        listing = head.run(["du", "--summarize", "--bytes", found.records]).output.split()
        size += max(0, found.size - int(listing[0] if listing else 0))
    _require_space(head, f"{found.dataset}, and its shards where there are none yet,", size)


def _clear(head: Session, found: Found) -> str:
    """Remove what a command that was ended left of placing the data set; returns where it is to be placed."""
    unfinished = f"{found.remote}.unfinished"
    head.must("make room for data", ["rm", "-rf", unfinished])
    return unfinished


def _require_space(head: Session, what: str, size: int) -> None:
    """Raises ConfigError where ``size`` bytes would not leave as much free as runs need."""
    listing = head.must("look for room", ["df", "--output=avail", "--block-size=1", SHARED])
    free = int(listing.split()[-1])
    if size + MIN_SHARED_FREE > free:
        room = f"{what} has {size / 2**30:.1f} GiB, {SHARED} on the nodes has {free / 2**30:.1f} GiB free"
        raise ConfigError([f"train.data: {room}, of which runs keep {MIN_SHARED_FREE >> 30}"])
