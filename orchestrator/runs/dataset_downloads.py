"""Download published data sets into the cache, and check them."""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from orchestrator import state
from orchestrator.errors import ConfigError, PreflightError
from orchestrator.recipes import datasets

TIMEOUT, DOWNLOAD_SECONDS = 20.0, 3600.0  # seconds without a byte; seconds for a file
STALE_SECONDS = 3600.0
# Time of every file, in 2000. The name of a data set on the nodes depends on it: a run can be resumed after the cache
# was removed, and on another machine.
TIME = 946_684_800


def download(dataset: str, on_progress: Callable[[str], None]) -> Path:
    """Return the cache directory of ``dataset``; download and check published files that are missing from it."""
    entry = datasets()[dataset]
    if "files" not in entry:
        problem = f"train.data: {dataset} cannot be downloaded without {entry['needs']}: pass its directory"
        raise ConfigError([problem], "name it by --data DIR, or by `data` of the section `train` in cluster.yaml")
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
        for leftover in target.parent.glob(f".{target.name}.*"):  # left by a killed command
            if time.time() - leftover.stat().st_mtime > STALE_SECONDS:
                leftover.unlink(missing_ok=True)
        with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as partial:
            try:
                digest = _copy(url, partial, most)
                if digest != checksum:
                    problem = f"{url} has SHA-256 {digest}, expected {checksum}"
                    raise PreflightError(problem, "try again, or use --data DIR")
                Path(partial.name).chmod(0o644)
                os.utime(partial.name, (TIME, TIME))
                Path(partial.name).replace(target)
            finally:
                Path(partial.name).unlink(missing_ok=True)
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        hint = "name a directory that has the data: --data DIR"
        raise PreflightError(f"{url} cannot be downloaded: {reason}", hint) from error


def _copy(url: str, target: IO[bytes], most: int) -> str:
    """Copy and return the SHA-256. Raises OSError if there are more than ``most`` bytes, or the copy takes too long."""
    digest, remaining, deadline = hashlib.sha256(), most, time.monotonic() + DOWNLOAD_SECONDS
    with urllib.request.urlopen(url, timeout=TIMEOUT) as source:
        while piece := source.read1(1 << 20):
            remaining -= len(piece)
            if remaining < 0:
                raise OSError(f"it has more than {most:,} bytes, which the whole data set has")
            if time.monotonic() > deadline:
                raise OSError(f"it took more than {DOWNLOAD_SECONDS:.0f} s")
            digest.update(piece)
            target.write(piece)
    target.flush()
    return digest.hexdigest()
