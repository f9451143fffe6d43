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

from orchestrator.schema import MANIFEST, Manifest, Shard, StageConfig, Staged
from orchestrator.trainer.data import local_copy, manifests, ring_copy
from orchestrator.trainer.data.report_failures import end_in_one_line
from orchestrator.trainer.data.ring_copy import Group

SPARE = 1 << 30  # bytes that stay free on a disk
PROGRESS_SECONDS = 5.0


@dataclass
class Progress:
    """Progress of one data set's shards; ``last_print`` is the time of the last line."""

    total: int
    shards: int = 0
    bytes: int = 0
    started: float = field(default_factory=time.monotonic)
    last_print: float = field(default_factory=time.monotonic)

    def say(self, copied: Sequence[Shard]) -> None:
        now = time.monotonic()
        self.shards += len(copied)
        self.bytes += sum(shard.bytes for shard in copied)
        if now - self.last_print >= PROGRESS_SECONDS or self.shards == self.total:
            self.last_print, rate = now, self.bytes / 1e6 / max(now - self.started, 1e-3)
            print(f"shards {self.shards}/{self.total}, {self.bytes / 1e6:,.0f} MB, {rate:.0f} MB/s", flush=True)


def main(run_directory: Path) -> None:
    hvd.init(process_sets="dynamic")
    with end_in_one_line():
        _stage_all(run_directory)


def _stage_all(run_directory: Path) -> None:
    config = StageConfig.model_validate_json((run_directory / "config.json").read_text())
    tf.config.set_visible_devices([], "GPU")
    started = time.monotonic()
    group = Group(config.head_apart)
    manifests_by_source = {Path(source): _manifest(Path(source)) for source in config.sources}
    with ThreadPoolExecutor(config.threads) as pool:
        missing = {source: _missing(source, manifest, pool) for source, manifest in manifests_by_source.items()}
    _require_space([shard for shards in missing.values() for shard in shards])
    read = sum(_stage(source, manifest, missing[source], group) for source, manifest in manifests_by_source.items())
    copied = sum(shard.bytes for shards in missing.values() for shard in shards)
    hosts, reads, copies = zip(*hvd.allgather_object((socket.gethostname(), read, copied)), strict=True)
    if hvd.rank() == 0:
        all_shards = [shard for manifest in manifests_by_source.values() for shard in manifest.all_shards]
        Staged(
            directories=[str(local_copy.LOCAL / source.name) for source in manifests_by_source],
            hosts=list(hosts),
            shards=len(all_shards),
            bytes=sum(shard.bytes for shard in all_shards),
            read=list(reads),
            copied=list(copies),
            seconds=time.monotonic() - started,
        ).write(run_directory / "staged.json")


def _manifest(source: Path) -> Manifest:
    manifest = manifests.read(source)
    return manifest or sys.exit(f"{source}: no {MANIFEST}: `orchestrator data prepare` writes it")


def _missing(source: Path, manifest: Manifest, pool: ThreadPoolExecutor) -> list[Shard]:
    """Return the shards that this node lacks or has damaged; ends the program if its data directory is not writable."""
    directory = local_copy.LOCAL / source.name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{directory} on {socket.gethostname()}: {error.strerror}: `orchestrator deploy` creates it")
    for part in directory.glob(".*.part"):  # of a run that was killed
        part.unlink()
    whole = pool.map(lambda shard: manifests.is_whole(directory, shard), manifest.all_shards)
    return [shard for shard, is_whole in zip(manifest.all_shards, whole, strict=True) if not is_whole]


def _require_space(missing: Sequence[Shard]) -> None:
    """End the program of every rank if a node's disk has too little space."""
    needed, free = sum(shard.bytes for shard in missing), shutil.disk_usage(local_copy.LOCAL).free
    shortage = f"{socket.gethostname()} needs {_gib(needed + SPARE)} and has {_gib(free)}"
    short = bool(missing) and needed + SPARE > free
    shortages = [line for line in hvd.allgather_object(shortage if short else "") if line]
    if shortages:
        remedy = f"remove data of no use there: `orchestrator ssh NODE -- ls {local_copy.LOCAL}`"
        sys.exit(
            f"{local_copy.LOCAL}: too little space: {'; '.join(shortages)} ({_gib(SPARE)} must stay free): {remedy}"
        )


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
        (target / MANIFEST).unlink(missing_ok=True)
    missing_names = {shard.name for shard in missing}
    lacking = group.union(missing_names)
    shards = [shard for shard in manifest.all_shards if shard.name in lacking]
    progress = Progress(len(shards))
    for first in range(0, len(shards), group.size):
        shards_at_once = shards[first : first + group.size]
        ring_copy.copy_shards(source, target, shards_at_once, missing_names, group)
        if group.prints_progress:
            progress.say(shards_at_once)
    shutil.copyfile(source / MANIFEST, target / f".{MANIFEST}")
    (target / f".{MANIFEST}").replace(target / MANIFEST)
    return sum(shard.bytes for shard in shards[group.index :: group.size])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
