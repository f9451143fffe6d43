"""Ring copy of shards among the ranks of a run: each reads one shard, in pieces, and the ranks exchange the pieces.

Horovod's allgather sends them round a ring, so that no rank sends a piece to more than one other; a broadcast would
send one shard after the other, from one rank to all.
"""

import hashlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Shard
from orchestrator.trainer.data.report_failures import name_unwritable

PIECES = 64 << 20  # bytes of all ranks' pieces together, which a rank holds in memory


class Group:
    """Ranks that read from the shared storage together; ``index`` is this rank's position among ``size``."""

    def __init__(self, head_apart: bool) -> None:
        others = list(range(1, hvd.size()))
        self._ranks = hvd.global_process_set
        apart = head_apart and bool(others)
        if apart and len(others) > 1:
            self._ranks = hvd.add_process_set(others)
        alone = apart and (hvd.rank() == 0 or len(others) == 1)
        self.size = 1 if alone else hvd.size() - apart
        self.index = 0 if alone else hvd.rank() - apart
        self.prints_progress = hvd.rank() == apart

    def union(self, names: set[str]) -> set[str]:
        """Return the union of all ranks' ``names``."""
        return names if self.size == 1 else set().union(*hvd.allgather_object(names, process_set=self._ranks))

    def exchange(self, piece: bytes, sizes: Sequence[int]) -> list[memoryview]:
        """Return the pieces of all ranks, of ``sizes`` bytes, in order of their turns."""
        if self.size == 1:
            return [memoryview(piece)]
        with tf.device("CPU:0"):
            tensor = tf.constant(np.frombuffer(piece, np.uint8))
            joined = memoryview(hvd.allgather(tensor, name="piece", process_set=self._ranks).numpy())
        ends = list(itertools.accumulate(sizes))
        return [joined[end - size : end] for end, size in zip(ends, sizes, strict=True)]


class Copy:
    """Copy of a shard to this node's disk, which gets its name once its checksum is verified.

    As a context manager, it removes what is not complete at the end of the block.
    """

    def __init__(self, directory: Path, shard: Shard, source: Path) -> None:
        self.path, self.shard, self.source = directory / shard.name, shard, source
        self._unfinished = directory / f".{shard.name}.part"
        with name_unwritable(self.path):
            self._file, self._digest = self._unfinished.open("wb"), hashlib.sha256()

    def __enter__(self) -> "Copy":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk has no room for the rest of the last piece
            self._file.close()
        self._unfinished.unlink(missing_ok=True)

    def write(self, piece: memoryview) -> None:
        self._digest.update(piece)
        with name_unwritable(self.path):
            self._file.write(piece)

    def end(self) -> None:
        """Verify the checksum and give the file its name; ends the program if the checksum is wrong."""
        with name_unwritable(self.path):
            self._file.close()
        if self._digest.hexdigest() != self.shard.sha256:
            remedy = "`orchestrator data prepare` writes it again"
            sys.exit(f"{self.source}: damaged: its SHA-256 is not that of its manifest: {remedy}")
        self._unfinished.replace(self.path)


def copy_shards(source: Path, target: Path, shards: Sequence[Shard], missing: set[str], group: Group) -> None:
    """Read shards together and write those that this node lacks.

    Args:
        source: Directory on the shared storage.
        target: Directory on this node's disk.
        shards: Shards to read, at most one per rank.
        missing: Names of the shards to write.
        group: Ranks that read together.
    """
    with ExitStack() as unfinished:
        copies = [
            unfinished.enter_context(Copy(target, shard, source / shard.name)) if shard.name in missing else None
            for shard in shards
        ]
        for pieces in _exchange_pieces(source, shards, group):
            for copy, piece in zip(copies, pieces, strict=False):
                if copy:
                    copy.write(piece)
        for copy in filter(None, copies):
            copy.end()


def _exchange_pieces(source: Path, shards: Sequence[Shard], group: Group) -> Iterator[list[memoryview]]:
    """Yield the pieces of these shards, one of each at a time; this rank reads the shard of its own turn."""
    most = max(PIECES // group.size, 1 << 16)
    rank_shard = shards[group.index] if group.index < len(shards) else None
    reading = _pieces(source / rank_shard.name, rank_shard.bytes, most) if rank_shard else iter(())
    for first in range(0, max(shard.bytes for shard in shards), most):
        sizes = [max(0, min(most, shard.bytes - first)) for shard in shards]
        yield group.exchange(next(reading, b""), [*sizes, *[0] * (group.size - len(sizes))])


def _pieces(path: Path, size: int, most: int) -> Iterator[bytes]:
    """Yield a file in pieces; the next is read while one is sent."""
    size_on_disk = path.stat().st_size if path.is_file() else 0
    if size_on_disk != size:
        sys.exit(f"{path}: {size_on_disk} bytes instead of {size}: `orchestrator data prepare` writes it again")
    with ThreadPoolExecutor(1) as reader, path.open("rb") as file:
        next_piece = reader.submit(file.read, most)
        while piece := next_piece.result():
            next_piece = reader.submit(file.read, most)
            yield piece
