"""Writer of one shard of images, or of the description of a shard that the user provided.

A shard is written under a temporary name, read back for its checksum and then given its name; its description is a file
in the same directory.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from orchestrator.schema import PrepareConfig, Shard
from orchestrator.trainer.data import bounded_reading, decoding, image_files, imagenet, manifests
from orchestrator.trainer.data.bad_samples import reason_of
from orchestrator.trainer.data.inspection import DataError
from orchestrator.trainer.data.report_failures import name_unwritable

FIRST_LABEL = 1  # as in the widely used shards, where 0 stands for no class


@dataclass(frozen=True)
class Task:
    """Shard to write: its samples are (path below the source, class), none for a shard that the user provided."""

    split: str
    name: str
    samples: imagenet.Samples


def is_complete(directory: Path, name: str) -> bool:
    shard = read_description(directory, name)
    return shard is not None and manifests.is_whole(directory, shard)


def read_description(directory: Path, name: str) -> "Shard | None":
    try:
        return manifests.read_description(directory / f"{name}.json", Shard)
    except DataError:
        return None


def write(config: PrepareConfig, task: Task, pool: ThreadPoolExecutor) -> list[str]:
    """Write one shard, unless it has unreadable images that may not be skipped.

    Args:
        config: Source, target, and whether unreadable images may be skipped.
        task: The shard.
        pool: Threads that decode images.

    Returns:
        Unreadable images with reasons if they prevented the shard, else an empty list.

    Raises:
        DataError: The shard cannot be written. No part of it is left.
    """
    path = Path(config.target) / task.name
    unfinished = path.with_name(f".{task.name}.part")
    try:
        with name_unwritable(path):
            lengths, labels, unreadable = _write_records(config, task, pool, unfinished)
            if unreadable and not config.skip_unreadable:
                return unreadable
            unfinished.replace(path)
            _write_description(path, lengths, labels, unreadable)
    finally:
        unfinished.unlink(missing_ok=True)
    return []


def _write_records(
    config: PrepareConfig, task: Task, pool: ThreadPoolExecutor, path: Path
) -> tuple[list[int], list[int], list[str]]:
    """Write the readable images of a shard; return lengths and labels of the records, and the unreadable images."""
    lengths, labels, unreadable = [], [], []
    images = pool.map(lambda sample: _read_image(Path(config.source) / sample[0]), task.samples)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for (name, number), image in zip(task.samples, images, strict=True):
            if isinstance(image, str):
                unreadable.append(f"{Path(config.source) / name}: {image}")
                print(f"unreadable: {unreadable[-1]}", flush=True)
                continue
            record = _record(*image, name, number + FIRST_LABEL)
            writer.write(record)
            lengths.append(len(record))
            labels.append(number + FIRST_LABEL)
    return lengths, labels, unreadable


def _read_image(path: Path) -> "tuple[bytes, int, int] | str":
    """Return an image file with its height and width, or the reason if it cannot be decoded."""
    try:
        content = bounded_reading.content(path, image_files.MAX_BYTES)
        height, width, _ = decoding.whole(tf.constant(content)).shape
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    except tf.errors.InvalidArgumentError as error:
        return reason_of(error)
    return content, height, width


def _record(content: bytes, height: int, width: int, name: str, label: int) -> bytes:
    """Build a record with the fields of ImageNet's published conversion.

    Source: github.com/tensorflow/models, inception and slim.
    """
    kind = b"JPEG" if content.startswith(image_files.JPEG_START) else b"PNG"
    path = Path(name)
    texts = {"image/encoded": content, "image/format": kind, "image/filename": path.name.encode(),
             "image/class/synset": path.parent.name.encode(), "image/colorspace": b"RGB"}  # fmt: skip
    numbers = {"image/height": height, "image/width": width, "image/channels": 3, "image/class/label": label}
    features = {key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])) for key, text in texts.items()}
    for key, number in numbers.items():
        features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)


def describe_provided(directory: Path, task: Task) -> list[str]:
    """Read a shard that the user provided, verify every checksum and describe it; return its faults."""
    path = directory / task.name
    try:
        lengths, labels = manifests.read_all_records(path)
    except tf.errors.OpError as error:
        print(f"damaged: {path}: {reason_of(error)}", flush=True)
        return [f"{path}: {reason_of(error)}"]
    _write_description(path, lengths, labels, [])
    return []


def _write_description(path: Path, lengths: list[int], labels: list[int], unreadable: list[str]) -> None:
    """Write a shard's description into its directory. The checksum is of the written file, as it is read back."""
    description = Shard(
        name=path.name,
        bytes=path.stat().st_size,
        sha256=manifests.sha256(path),
        lengths=lengths,
        labels=(min(labels), max(labels)) if labels else None,
        unreadable=unreadable,
    )
    with name_unwritable(path.with_name(f"{path.name}.json")):
        description.write(path.with_name(f"{path.name}.json"))
