"""Copy of prepared shards to every node's own disk, by one rank per node.

Run as ``python -m orchestrator.trainer.data.stage RUN_DIRECTORY``.

Every byte is read once from the shared storage. If that is a disk of the head, the head copies for itself and sends
nothing.
"""

import os
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")  # the head waits for the workers, for minutes

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Manifest, Shard, StageConfig, Staged
from orchestrator.trainer.data import local_copy, manifests, ring_copy
from orchestrator.trainer.data.inspection import DataError
from orchestrator.trainer.data.ring_copy import Group

SPARE = 1 << 30  # bytes that stay free on a disk
PROGRESS_SECONDS = 5.0


@dataclass
class Progress:
    """Progress of one data set's shards; ``said`` is the time of the last line."""

    total: int
    shards: int = 0
    bytes: int = 0
    started: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)

    def say(self, come: Sequence[Shard]) -> None:
        now = time.monotonic()
        self.shards += len(come)
        self.bytes += sum(shard.bytes for shard in come)
        if now - self.said >= PROGRESS_SECONDS or self.shards == self.total:
            self.said, rate = now, self.bytes / 1e6 / max(now - self.started, 1e-3)
            print(f"shards {self.shards}/{self.total}, {self.bytes / 1e6:,.0f} MB, {rate:.0f} MB/s", flush=True)


def main(run_directory: Path) -> None:
    try:
        _stage_all(run_directory)
    except DataError as error:
        sys.exit(f"rank {hvd.rank()}: {error}")


def _stage_all(run_directory: Path) -> None:
    config = StageConfig.model_validate_json((run_directory / "config.json").read_text())
    hvd.init(process_sets="dynamic")
    tf.config.set_visible_devices([], "GPU")
    started = time.monotonic()
    group = Group(config.head_apart)
    found = {Path(source): _manifest(Path(source)) for source in config.sources}
    with ThreadPoolExecutor(config.threads) as pool:
        missing = {source: _missing(source, manifest, pool) for source, manifest in found.items()}
    _require_space([shard for several in missing.values() for shard in several])
    read = sum(_stage(source, manifest, missing[source], group) for source, manifest in found.items())
    copied = sum(shard.bytes for several in missing.values() for shard in several)
    hosts, reads, copies = zip(*hvd.allgather_object((socket.gethostname(), read, copied)), strict=True)
    if hvd.rank() == 0:
        every = [shard for manifest in found.values() for shard in _shards(manifest)]
        Staged(
            directories=[str(local_copy.LOCAL / source.name) for source in found],
            hosts=list(hosts),
            shards=len(every),
            bytes=sum(shard.bytes for shard in every),
            read=list(reads),
            copied=list(copies),
            seconds=time.monotonic() - started,
        ).write(run_directory / "staged.json")


def _manifest(source: Path) -> Manifest:
    found = manifests.read(source)
    return found or sys.exit(f"{source}: no {manifests.MANIFEST}: `orchestrator data prepare` makes it")


def _shards(manifest: Manifest) -> list[Shard]:
    return [shard for several in manifest.shards.values() for shard in several]


def _missing(source: Path, manifest: Manifest, pool: ThreadPoolExecutor) -> list[Shard]:
    """Return the shards that this node lacks or has damaged; ends the program if its data directory is not writable."""
    directory = local_copy.LOCAL / source.name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{directory} on {socket.gethostname()}: {error.strerror}: `orchestrator deploy` makes room for data")
    for left in directory.glob(".*.part"):  # of a run that was killed
        left.unlink()
    every = _shards(manifest)
    whole = pool.map(lambda shard: manifests.is_whole(directory, shard), every)
    return [shard for shard, is_whole in zip(every, whole, strict=True) if not is_whole]


def _require_space(missing: Sequence[Shard]) -> None:
    """End the program of every rank if a node's disk has too little space."""
    needed, free = sum(shard.bytes for shard in missing), shutil.disk_usage(local_copy.LOCAL).free
    short = f"{socket.gethostname()} needs {_gib(needed + SPARE)} and has {_gib(free)}" if needed + SPARE > free else ""
    found = [line for line in hvd.allgather_object(short if missing else "") if line]
    if found:
        sys.exit(f"{local_copy.LOCAL}: too little room: {'; '.join(found)} ({_gib(SPARE)} stay free)")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _stage(source: Path, manifest: Manifest, missing: Sequence[Shard], group: Group) -> int:
    """Copy the shards of one data set that any rank lacks.

    The manifest is copied last, and removed first if shards are missing.

    Returns:
        The bytes that this rank read from the shared storage.
    """
    target = local_copy.LOCAL / source.name
    if missing:
        (target / manifests.MANIFEST).unlink(missing_ok=True)
    wanted, mine = group.union({shard.name for shard in missing}), {shard.name for shard in missing}
    rows = [shard for shard in _shards(manifest) if shard.name in wanted]
    progress = Progress(len(rows))
    for first in range(0, len(rows), group.size):
        several = rows[first : first + group.size]
        ring_copy.around(source, target, several, mine, group)
        if group.speaks:
            progress.say(several)
    shutil.copyfile(source / manifests.MANIFEST, target / f".{manifests.MANIFEST}")
    (target / f".{manifests.MANIFEST}").replace(target / manifests.MANIFEST)
    return sum(shard.bytes for shard in rows[group.turn :: group.size])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
