"""Data sets on the control side: found or downloaded, checked, and placed where every node reads them."""

import hashlib
import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from orchestrator import process, state
from orchestrator.cluster import MIN_SHARED_FREE, SHARED
from orchestrator.errors import ConfigError, OrchestratorError, PreflightError
from orchestrator.recipes import datasets
from orchestrator.ssh import Session

TIMEOUT = 20.0
STALE_SECONDS = 3600.0
FORMATS = ("-m", "orchestrator.trainer.formats")


@dataclass(frozen=True)
class Found:
    """A whole data set in a local directory."""

    dataset: str
    directory: Path
    files: list[str]
    train: int
    test: int
    note: str

    @property
    def remote(self) -> str:
        """Where it stands on the nodes: a name that changes with the files' names, sizes and times."""
        digest = hashlib.sha256()
        for name in self.files:
            status = (self.directory / name).stat()
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        return f"{SHARED}/data/{self.dataset}-{digest.hexdigest()[:12]}"


def find(dataset: str, data: Path | None, on_progress: Callable[[str], None]) -> Found | None:
    """The data set in ``data``, else among the downloads, else downloaded; None where it needs no files.

    Raises ConfigError where the directory does not hold it, PreflightError where it cannot be had.
    """
    if dataset == "synthetic":
        return None
    directory = data.expanduser() if data else download(dataset, on_progress)
    answer = process.run("check data", [sys.executable, *FORMATS, dataset, str(directory)])
    facts: dict[str, Any] = json.loads(answer)
    if "error" in facts:
        raise ConfigError([f"train.data: {facts['error']}"])
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
            _fetch(f"{entry['site']}/{name}", directory / name, checksum)
    return directory


def _fetch(url: str, target: Path, checksum: str) -> None:
    """A file of its own while it comes: another cluster may fetch the same."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{target.name}.*"):  # by a command that was killed
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.unlink(missing_ok=True)
        with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.") as partial:
            digest = _copy(url, partial)
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


def _copy(url: str, target: IO[bytes]) -> str:
    """The SHA-256 of what was copied."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT) as source:
        while piece := source.read(1 << 20):
            digest.update(piece)
            target.write(piece)
    target.flush()
    return digest.hexdigest()


def place(head: Session, found: Found, on_progress: Callable[[str], None]) -> str:
    """Copy the data set to the shared storage, where it is not there; returns its directory on the nodes."""
    target = found.remote
    unfinished = f"{target}.unfinished"
    if head.run(["test", "-d", target]).exit_code == 0:
        return target
    head.must("make room for data", ["rm", "-rf", unfinished])
    head.must("make room for data", ["mkdir", "-p", unfinished])
    _require_space(head, found)
    total = len(found.files)
    files = {name: found.directory / name for name in found.files}
    try:
        head.send(files, unfinished, lambda count: on_progress(f"{count} of {total} files"))
    except OrchestratorError:
        head.run(["rm", "-rf", unfinished])
        raise
    head.must("finish placing data", ["mv", "--no-target-directory", unfinished, target])
    return target


def _require_space(head: Session, found: Found) -> None:
    """Raises ConfigError where the data set would not leave as much free as runs need."""
    listing = head.must("look for room", ["df", "--output=avail", "--block-size=1", SHARED])
    size, free = sum((found.directory / name).stat().st_size for name in found.files), int(listing.split()[-1])
    if size + MIN_SHARED_FREE > free:
        room = f"{found.dataset} has {size / 2**30:.1f} GiB, {SHARED} on the nodes has {free / 2**30:.1f} GiB free"
        raise ConfigError([f"train.data: {room}, of which runs keep {MIN_SHARED_FREE >> 30}"])
