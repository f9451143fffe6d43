"""Data sets on the storage that all nodes share: copy them there, and find shards."""

import hashlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from orchestrator import progress
from orchestrator.cluster import MIN_SHARED_FREE, SHARED
from orchestrator.errors import ConfigError, OrchestratorError, command
from orchestrator.runs.datasets import FoundDataset
from orchestrator.schema import MANIFEST
from orchestrator.ssh import Session

# Arguments: the complete copy, its name. Another machine may have copied the same data set meanwhile.
FINISH = 'mv --no-target-directory "$0" "$1" || { test -d "$1" && rm -rf "$0"; }'
MAX_LISTING = 512 << 20  # bytes; that of ImageNet has 60 MB


def provide(head: Session, data: FoundDataset, cluster: str) -> str:
    """Return the directory of a data set's prepared shards, else of its files; see :func:`upload`."""
    return prepared(head, data) or upload(head, data, cluster)


def upload(head: Session, data: FoundDataset, cluster: str) -> str:
    """Copy the data set to the shared storage if it is not there yet, and return its directory on the nodes.

    Args:
        head: Session on the head.
        data: Data set on this machine.
        cluster: Name of the cluster, for the remedy of an error.

    Returns:
        The directory.

    Raises:
        ConfigError: The shared storage has too little space, or a local file cannot be read.
        CommandFailed: The head cannot store the files.
    """
    with progress.step(f"Placing {data.dataset} on the shared storage") as step:
        if not _is_uploaded(head, data):
            _copy(head, data, cluster, step)
    return data.remote


def _is_uploaded(head: Session, data: FoundDataset) -> bool:
    return head.run(["test", "-d", data.remote]).exit_code == 0


def _copy(head: Session, data: FoundDataset, cluster: str, step: progress.Step) -> None:
    """Copy to a directory that gets its name once it is complete; files of a copy that broke off are not sent again."""
    unfinished, files = _unsent(head, data)
    _require_space(head, cluster, data.dataset, _size(files))
    sent = len(data.files) - len(files)
    try:
        head.send(files, unfinished, lambda count: step.detail(f"{sent + count} of {len(data.files)} files"))
    except OrchestratorError:
        head.run(["rm", "-rf", unfinished])
        raise
    head.must("finish placing data", ["sh", "-c", FINISH, unfinished, data.remote])


def prepared(head: Session, data: FoundDataset) -> str | None:
    """Return the directory of the prepared shards on the nodes; None if there are none, or some are missing."""
    answer = head.run(["test", "-f", f"{data.records}/{MANIFEST}"])
    return data.records if answer.exit_code == 0 else None


def all_prepared(head: Session, dataset: str | None) -> list[str]:
    """Return the directories of all prepared shards on the shared storage, or only those of ``dataset``."""
    pattern = f"{SHARED}/data/{dataset or '*'}-*/{MANIFEST}"
    argv = ["find", f"{SHARED}/data", "-mindepth", "2", "-maxdepth", "2", "-path", pattern]
    return sorted(str(Path(line).parent) for line in head.run(argv).output.splitlines())


def require_space_for_records(head: Session, data: FoundDataset, cluster: str) -> None:
    """Raise ConfigError if the parts of data set and shards that are still missing do not fit on the shared storage."""
    size = 0 if _is_uploaded(head, data) else _size(_unsent(head, data)[1])
    if not data.shards:
        listing = head.run(["du", "--summarize", "--bytes", data.records]).output.split()
        size += max(0, data.size - int(listing[0] if listing else 0))
    _require_space(head, cluster, f"{data.dataset}, and its shards where there are none yet,", size)


def sender() -> str:
    """Return a word for this machine and account, which alone write to a directory that has it in its name."""
    return hashlib.sha256(f"{os.getuid()}@{socket.gethostname()}".encode()).hexdigest()[:8]


def _unsent(head: Session, data: FoundDataset) -> tuple[str, dict[str, Path]]:
    """Return the directory to copy to, and the files that an interrupted copy of the same data set did not leave there.

    tar writes a file from its begin to its end, so a file of the right size is complete.
    """
    unfinished = f"{data.remote}.unfinished-{sender()}"
    head.must("make a directory for data", ["mkdir", "-p", unfinished])
    argv = ["find", unfinished, "-type", "f", "-printf", r"%s %P\0"]
    listing = b"".join(head.read("list the files of an interrupted copy", argv, MAX_LISTING))
    present = set(listing.decode(errors="replace").split("\0"))
    files = {name: data.directory / name for name in data.files}
    return unfinished, {name: path for name, path in files.items() if f"{path.stat().st_size} {name}" not in present}


def _size(files: Mapping[str, Path]) -> int:
    return sum(path.stat().st_size for path in files.values())


def _require_space(head: Session, cluster: str, what: str, size: int) -> None:
    """Raise ConfigError if ``size`` bytes leave less free space than runs need."""
    listing = head.must("look for room", ["df", "--output=avail", "--block-size=1", SHARED])
    free = int(listing.split()[-1])
    if size + MIN_SHARED_FREE > free:
        room = f"{what} has {size / 2**30:.1f} GiB, {SHARED} on the nodes has {free / 2**30:.1f} GiB free"
        opens = f"{command('ssh', cluster)} opens a terminal on the head"
        remedy = f"{opens}: remove data in {SHARED}/data that no run uses"
        problem = f"train.data: {room}, of which {MIN_SHARED_FREE >> 30} GiB must stay free"
        raise ConfigError([problem], f"{remedy}, or use a larger disk")
