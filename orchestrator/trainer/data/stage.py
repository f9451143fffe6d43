"""Prepared shards onto every node's own disk, by a rank per node.

Run as ``python -m orchestrator.trainer.data.stage RUN_DIRECTORY``.

Every byte is read once from the shared storage: the ranks read a shard each, a piece at a time, and give the pieces to
one another. Horovod's allgather sends them round a ring, so that no rank sends a piece to more than one other; a
broadcast would send one shard after the other, from one rank to all. Where the shared storage is a disk of the head,
the head copies for itself and sends nothing.
"""

import hashlib
import itertools
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")  # the head waits for the workers, for minutes

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Manifest, Shard, StageConfig, Staged
from orchestrator.trainer.data import records, staged

PIECES = 64 << 20  # bytes of all ranks' pieces together: a rank holds them in memory
SPARE = 1 << 30  # bytes that a disk keeps free
PROGRESS_SECONDS = 5.0


class Group:
    """The ranks that read from the shared storage together; ``turn`` is this rank's place among ``size``."""

    def __init__(self, head_apart: bool) -> None:
        others = list(range(1, hvd.size()))
        self._ranks = hvd.global_process_set
        apart = head_apart and bool(others)
        if apart and len(others) > 1:
            self._ranks = hvd.add_process_set(others)
        alone = apart and (hvd.rank() == 0 or len(others) == 1)
        self.size = 1 if alone else hvd.size() - apart
        self.turn = 0 if alone else hvd.rank() - apart
        self.speaks = hvd.rank() == apart

    def union(self, names: set[str]) -> set[str]:
        """What any of the ranks has in ``names``."""
        return names if self.size == 1 else set().union(*hvd.allgather_object(names, process_set=self._ranks))

    def exchange(self, piece: bytes, sizes: Sequence[int]) -> list[memoryview]:
        """The pieces of all ranks, of ``sizes`` bytes, in turn."""
        if self.size == 1:
            return [memoryview(piece)]
        with tf.device("CPU:0"):
            mine = tf.constant(np.frombuffer(piece, np.uint8))
            joined = memoryview(hvd.allgather(mine, name="piece", process_set=self._ranks).numpy())
        ends = list(itertools.accumulate(sizes))
        return [joined[end - size : end] for end, size in zip(ends, sizes, strict=True)]


class Copy:
    """A shard on its way to this node's disk, which has its name there once its checksum is right."""

    def __init__(self, directory: Path, shard: Shard, source: Path) -> None:
        self.path, self.shard, self.source = directory / shard.name, shard, source
        self._unfinished = directory / f".{shard.name}.part"
        self._file, self._digest = self._unfinished.open("wb"), hashlib.sha256()

    def write(self, piece: memoryview) -> None:
        self._digest.update(piece)
        self._file.write(piece)

    def end(self) -> None:
        """Ends the program where the checksum is wrong."""
        self._file.close()
        if self._digest.hexdigest() != self.shard.sha256:
            self._unfinished.unlink()
            remedy = "`orchestrator data prepare` makes it again"
            sys.exit(f"{self.source}: damaged: its SHA-256 is not that of its manifest: {remedy}")
        self._unfinished.replace(self.path)


def main(run_directory: Path) -> None:
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
            directories=[str(staged.LOCAL / source.name) for source in found],
            hosts=list(hosts),
            shards=len(every),
            bytes=sum(shard.bytes for shard in every),
            read=list(reads),
            copied=list(copies),
            seconds=time.monotonic() - started,
        ).write(run_directory / "staged.json")


def _manifest(source: Path) -> Manifest:
    found = records.read_manifest(source)
    return found or sys.exit(f"{source}: no {records.MANIFEST}: `orchestrator data prepare` makes it")


def _shards(manifest: Manifest) -> list[Shard]:
    return [shard for several in manifest.shards.values() for shard in several]


def _missing(source: Path, manifest: Manifest, pool: ThreadPoolExecutor) -> list[Shard]:
    """What this node lacks, or has damaged. Ends the program where its directory for data cannot be written."""
    directory = staged.LOCAL / source.name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{directory} on {socket.gethostname()}: {error.strerror}: `orchestrator deploy` makes room for data")
    for left in directory.glob(".*.part"):  # by a run that was killed
        left.unlink()
    every = _shards(manifest)
    whole = pool.map(lambda shard: records.is_whole(directory, shard), every)
    return [shard for shard, is_whole in zip(every, whole, strict=True) if not is_whole]


def _require_space(missing: Sequence[Shard]) -> None:
    """Ends every rank's program where the disk of one node has too little room."""
    needed, free = sum(shard.bytes for shard in missing), shutil.disk_usage(staged.LOCAL).free
    short = f"{socket.gethostname()} needs {_gib(needed + SPARE)} and has {_gib(free)}" if needed + SPARE > free else ""
    found = [line for line in hvd.allgather_object(short if missing else "") if line]
    if found:
        sys.exit(f"{staged.LOCAL}: too little room: {'; '.join(found)} ({_gib(SPARE)} stay free)")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _stage(source: Path, manifest: Manifest, missing: Sequence[Shard], group: Group) -> int:
    """Copy what any rank lacks of one data set; the manifest comes last, and goes first where something is missing.

    Returns the bytes that this rank read from the shared storage.
    """
    target = staged.LOCAL / source.name
    if missing:
        (target / records.MANIFEST).unlink(missing_ok=True)
    wanted, mine = group.union({shard.name for shard in missing}), {shard.name for shard in missing}
    rows = [shard for shard in _shards(manifest) if shard.name in wanted]
    rounds = [rows[first : first + group.size] for first in range(0, len(rows), group.size)]
    started = said = time.monotonic()
    done = 0
    for number, several in enumerate(rounds, 1):
        copies = [Copy(target, shard, source / shard.name) if shard.name in mine else None for shard in several]
        for pieces in _exchanged(source, several, group):
            for copy, piece in zip(copies, pieces, strict=False):
                if copy:
                    copy.write(piece)
        for copy in filter(None, copies):
            copy.end()
        done += sum(shard.bytes for shard in several)
        now = time.monotonic()
        if group.speaks and (now - said >= PROGRESS_SECONDS or number == len(rounds)):
            said, count = now, min(number * group.size, len(rows))
            rate = done / 1e6 / max(now - started, 1e-3)
            print(f"shards {count}/{len(rows)}, {done / 1e6:,.0f} MB, {rate:.0f} MB/s", flush=True)
    shutil.copyfile(source / records.MANIFEST, target / f".{records.MANIFEST}")
    (target / f".{records.MANIFEST}").replace(target / records.MANIFEST)
    return sum(shard.bytes for shard in rows[group.turn :: group.size])


def _exchanged(source: Path, several: Sequence[Shard], group: Group) -> Iterator[list[memoryview]]:
    """The pieces of these shards, one of each at a time: this rank reads the one whose turn is its own."""
    most = max(PIECES // group.size, 1 << 16)
    mine = several[group.turn] if group.turn < len(several) else None
    reading = _pieces(source / mine.name, mine.bytes, most) if mine else iter(())
    for first in range(0, max(shard.bytes for shard in several), most):
        sizes = [max(0, min(most, shard.bytes - first)) for shard in several]
        yield group.exchange(next(reading, b""), [*sizes, *[0] * (group.size - len(sizes))])


def _pieces(path: Path, size: int, most: int) -> Iterator[bytes]:
    """A file in pieces; the next is being read while one is given away."""
    there = path.stat().st_size if path.is_file() else 0
    if there != size:
        sys.exit(f"{path}: {there} bytes instead of {size}: `orchestrator data prepare` makes it again")
    with ThreadPoolExecutor(1) as reader, path.open("rb") as file:
        coming = reader.submit(file.read, most)
        while piece := coming.result():
            coming = reader.submit(file.read, most)
            yield piece


if __name__ == "__main__":
    main(Path(sys.argv[1]))
