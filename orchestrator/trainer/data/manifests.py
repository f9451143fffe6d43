"""Manifests of TFRecord shards: created for shards that lack one, and used to check that a shard is complete."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import tensorflow as tf
from pydantic import BaseModel, ValidationError

from orchestrator.schema import MANIFEST, Manifest, Shard, bounded_files
from orchestrator.trainer.data import bounded_reading, tfrecord_format
from orchestrator.trainer.data.bad_samples import reason_of
from orchestrator.trainer.data.inspection import DataError

MAX_BYTES = 256 << 20  # of a manifest: ten times the size of ImageNet's
Described = TypeVar("Described", bound=BaseModel)
READERS = 16  # parallel reads: a disk behind a network has a long latency, but serves many at once
SAMPLED, ALL = 100, -1  # records of a shard whose labels are read if there is no manifest
CHUNK = 1 << 22
ENCODED, LABEL = "image/encoded", "image/class/label"
FIELDS = {ENCODED: tf.io.FixedLenFeature([], tf.string), LABEL: tf.io.FixedLenFeature([], tf.int64)}


def has_shards(directory: Path) -> bool:
    return (directory / MANIFEST).is_file() or any(tfrecord_format.names(directory).values())


def read(directory: Path) -> "Manifest | None":
    path = directory / MANIFEST
    return read_description(path, Manifest) if path.is_file() else None


def read_description(path: Path, model: type[Described]) -> Described:
    """Read a description of shards from a JSON file.

    Not by `bounded.read_model`, which takes 10 times as long: ImageNet has 1.3 million records.

    Raises:
        DataError: The file is not a valid description.
    """
    try:
        return model.model_validate_json(bounded_reading.content(path, MAX_BYTES))
    except ValidationError as error:
        raise DataError(
            f"{path}: {bounded_files.problems(error)}: `orchestrator data prepare` writes it again"
        ) from None


def scan(directory: Path, classes: int) -> Manifest:
    """Create a manifest without checksums from the shards.

    All labels are read if some of them do not tell whether labels begin with 0 or with 1.

    Raises:
        DataError: A shard is truncated or damaged.
    """
    manifest = describe(_scan_shards(directory, SAMPLED))
    enough = manifest.label_base == 0 or manifest.greatest_label >= classes
    return manifest if enough else describe(_scan_shards(directory, ALL))


def _scan_shards(directory: Path, most: int) -> dict[str, list[Shard]]:
    with ThreadPoolExecutor(READERS) as pool:
        return {
            split: list(pool.map(lambda name: _shard(directory / name, most), names))
            for split, names in tfrecord_format.names(directory).items()
        }


def _shard(path: Path, most: int) -> Shard:
    lengths = tfrecord_format.lengths(path)
    try:
        labels = list(tf.data.TFRecordDataset(str(path)).take(most).map(_label).as_numpy_iterator())
    except tf.errors.OpError as error:
        raise DataError(f"{path}: {reason_of(error)}") from None
    limits = (int(min(labels)), int(max(labels))) if labels else None
    return Shard(name=path.name, bytes=path.stat().st_size, sha256="", lengths=lengths, labels=limits)


def read_all_records(path: Path) -> tuple[list[int], list[int]]:
    """Return lengths and labels of a shard's records, and verify every checksum.

    Raises:
        tf.errors.OpError: A checksum is wrong.
    """
    dataset = tf.data.TFRecordDataset(str(path)).map(lambda record: (tf.strings.length(record), _label(record)))
    pairs = list(dataset.batch(1024).as_numpy_iterator())
    lengths, labels = ([number for pair in pairs for number in pair[part].tolist()] for part in (0, 1))
    return lengths, labels


def _label(record: tf.Tensor) -> tf.Tensor:
    return tf.io.parse_single_example(record, {LABEL: FIELDS[LABEL]})[LABEL]


def describe(shards: dict[str, list[Shard]]) -> Manifest:
    """Create the manifest of these shards. Widely used labels begin with 1, and 0 stands for no class."""
    least = [shard.labels[0] for split_shards in shards.values() for shard in split_shards if shard.labels]
    return Manifest(label_base=1 if min(least, default=1) > 0 else 0, shards=shards)


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def is_whole(directory: Path, shard: Shard) -> bool:
    """Check that ``directory`` has ``shard`` with its size and checksum."""
    path = directory / shard.name
    return path.is_file() and path.stat().st_size == shard.bytes and sha256(path) == shard.sha256
