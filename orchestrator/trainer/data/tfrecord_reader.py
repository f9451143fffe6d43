"""TFRecord shards as a data set to train on: the assignment of records to ranks, and random access to records.

Every record is read separately, at its offset in its shard, which the manifest gives. So samples have numbers, can be
read in any order, and a position in that order is found again without reading the preceding records. TensorFlow's own
reader does it, and checks the record's checksum.

A rank has the same samples in every epoch, a row of whole shards except at its ends: records that its node has read
once stay in the node's memory, and no node reads the records of others.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from orchestrator.schema import LOCAL_DATA, Shard
from orchestrator.trainer.data import imagenet, manifests, tfrecord_format
from orchestrator.trainer.data.inspection import DataError
from orchestrator.trainer.data.manifests import ENCODED, FIELDS, LABEL, READERS

WINDOW = 4  # shards whose records are mixed, and from which a rank reads at a time


@dataclass(frozen=True)
class Records:
    """Records of one split: number i has ``lengths[i]`` bytes of content at ``offsets[i]`` of its shard.

    ``sizes`` are the numbers of records of the shards in ``paths``; the labels of the ``classes`` begin with
    ``label_base``.
    """

    paths: list[str]
    sizes: list[int]
    offsets: np.ndarray
    lengths: np.ndarray
    label_base: int
    classes: int = imagenet.MAX_CLASSES

    @property
    def readers(self) -> int:
        """Threads that wait for a disk; for the node's own disk, which is mostly cached in memory, one is cheaper."""
        return 1 if all(path.startswith(LOCAL_DATA) for path in self.paths) else READERS

    def __len__(self) -> int:
        return len(self.lengths)

    def first(self, count: "int | None") -> "Records":
        """Return the first ``count`` records; all if there are fewer, or if it is None."""
        edges = [0, *np.cumsum(self.sizes).tolist()]
        sizes = np.diff(np.minimum(edges, len(self) if count is None else count)).tolist()
        return replace(self, sizes=sizes, offsets=self.offsets[:count], lengths=self.lengths[:count])

    def contents(self, numbers: tf.Tensor) -> tf.data.Dataset:
        """Return the contents of the records ``numbers``, int64 (n), in order, READERS of them ahead.

        Passing a record between threads costs twice as much as reading it from memory: many threads are for slow disks.
        """
        locations = tf.data.Dataset.from_tensor_slices(self._locations(numbers))
        if self.readers == 1:
            return locations.flat_map(self._reader()).prefetch(READERS)
        options = {"cycle_length": self.readers, "block_length": 1, "num_parallel_calls": self.readers}
        return locations.interleave(self._reader(), deterministic=True, **options)

    def _locations(self, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return shard, offset and bytes of all records at once: one by one, this costs as much as reading them."""
        edges = tf.constant(np.cumsum(self.sizes), tf.int64)
        offsets = tf.constant(self.offsets, tf.int64)
        lengths = tf.constant(self.lengths + tfrecord_format.FRAME, tf.int64)
        return tf.searchsorted(edges, numbers, side="right"), tf.gather(offsets, numbers), tf.gather(lengths, numbers)

    def _reader(self) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset]:
        """Return a function for `interleave` from a record's place to a data set of one string, its content.

        Not to the string itself: the operation that takes it out of its data set has a state, and in deterministic
        programs a map with one has no threads.
        """
        paths = tf.constant(self.paths)

        def read(shard: tf.Tensor, offset: tf.Tensor, size: tf.Tensor) -> tf.data.Dataset:
            variant = tf.raw_ops.TFRecordDatasetV2(
                filenames=tf.reshape(tf.gather(paths, shard), [1]),
                compression_type="",
                buffer_size=size,
                byte_offsets=tf.reshape(offset, [1]),
            )
            records = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
            return records.take(1)

        return read

    def parse(self, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the image file in a record, and the number of its class.

        Raises:
            InvalidArgumentError: The record is damaged, or its label is that of no class.
        """
        fields = tf.io.parse_single_example(record, FIELDS)
        return fields[ENCODED], self._class(fields[LABEL])

    def _class(self, label: tf.Tensor) -> tf.Tensor:
        """Return the number of the class; a label of no class would be trained as "none of them" without an error.

        The error comes from parsing a text that is not a number, as in `decoding`.
        """
        number, last = label - self.label_base, self.label_base + self.classes - 1
        words = tf.strings.join(["label ", tf.strings.as_string(label), f", expected {self.label_base} to {last}"])
        return number + tf.strings.to_number(tf.where((number >= 0) & (number < self.classes), "0", words), tf.int64)

    def name(self, number: int) -> str:
        shard = int(np.searchsorted(np.cumsum(self.sizes), number, side="right"))
        return f"{self.paths[shard]}, record at byte {self.offsets[number]}"

    def share(self, seed: int, epoch: int, world: int, rank: int) -> np.ndarray:
        """Return the rank's samples of an epoch: pieces of shards in random order, records mixed among WINDOW of them.

        The arguments are those of ``Split.share``.
        """
        random = np.random.default_rng([seed, epoch, rank])
        pieces = self._pieces(world, rank)
        mixed = [pieces[number] for number in random.permutation(len(pieces))]
        windows = [np.concatenate(mixed[first : first + WINDOW]) for first in range(0, len(mixed), WINDOW)]
        return np.concatenate([np.empty(0, np.int64), *(random.permutation(window) for window in windows)])

    def part(self, world: int, rank: int) -> np.ndarray:
        """Return the rank's samples in file order. Parts are disjoint, cover all, and differ in size by one at most."""
        return np.concatenate([np.empty(0, np.int64), *self._pieces(world, rank)])

    def _pieces(self, world: int, rank: int) -> list[np.ndarray]:
        first, last = (len(self) * part // world for part in (rank, rank + 1))
        edges = [0, *np.cumsum(self.sizes).tolist()]
        cut = [(max(first, begin), min(last, end)) for begin, end in itertools.pairwise(edges)]
        return [np.arange(begin, end) for begin, end in cut if begin < end]


def load(directory: Path, classes: int) -> dict[str, Records]:
    """Load the splits, "train" and "val", of the shards in ``directory``.

    Raises:
        DataError: A shard differs from its description, or there are more than ``classes`` classes.
    """
    manifest = manifests.read(directory) or manifests.scan(directory, classes)
    if set(manifest.shards) != {"train", "val"}:
        raise DataError(f"{directory}: shards of {sorted(manifest.shards)}, expected those of train and val")
    imagenet.require_classes(directory, manifest.greatest_label - manifest.label_base + 1, classes)
    return {
        split: _records(directory, shards, manifest.label_base, classes) for split, shards in manifest.shards.items()
    }


def _records(directory: Path, shards: Sequence[Shard], label_base: int, classes: int) -> Records:
    for shard in shards:
        _require_size(directory / shard.name, shard)
    lengths = [np.array(shard.lengths, np.int64) for shard in shards]
    sizes = [content + tfrecord_format.FRAME for content in lengths]
    offsets = [np.cumsum(size) - size for size in sizes]
    empty = np.empty(0, np.int64)
    return Records(
        paths=[str(directory / shard.name) for shard in shards],
        sizes=[len(shard.lengths) for shard in shards],
        offsets=np.concatenate([empty, *offsets]),
        lengths=np.concatenate([empty, *lengths]),
        label_base=label_base,
        classes=classes,
    )


def _require_size(path: Path, shard: Shard) -> None:
    size = path.stat().st_size if path.is_file() else None
    described = sum(shard.lengths) + tfrecord_format.FRAME * len(shard.lengths)
    if size != shard.bytes or described != shard.bytes:
        problem = "missing" if size is None else f"{size} bytes instead of {shard.bytes}, with {described} in records"
        raise DataError(f"{path}: {problem}: `orchestrator data prepare` writes it again, `data stage` copies it again")
