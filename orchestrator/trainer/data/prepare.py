"""Class folders into TFRecord shards, each rank its part.

Run as ``python -m orchestrator.trainer.data.prepare RUN_DIRECTORY``.

A shard is written beside its name, read back for its checksum and then given its name, and beside it a description:
what is described and whole is not made again. Shards that the user brought are read through and described alike.
"""

import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")  # ranks that are done wait for the others, for minutes

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from pydantic import ValidationError

from orchestrator.schema import Manifest, PrepareConfig, Prepared, Shard
from orchestrator.trainer.data import decoding, imagenet, records, shards
from orchestrator.trainer.data.blame import reason_of

SEED = 0  # of the order in which images are put into shards: the same whenever it is made
FIRST_LABEL = 1  # as in the widely used shards, where 0 stands for none of the classes
NAMED = 5


@dataclass(frozen=True)
class Task:
    """A shard to make: its samples are (path below the source, class), none where the user brought it."""

    split: str
    name: str
    samples: imagenet.Samples


@dataclass
class Progress:
    """What rank 0 says of all ranks' work, as the shared storage shows it."""

    directory: Path
    left: set[str]
    total: int
    images: int = 0
    started: float = field(default_factory=time.monotonic)

    def say(self) -> None:
        if hvd.rank() == 0:
            made = {name: found for name in self.left if (found := _described(self.directory, name))}
            self.left -= made.keys()
            self.images += sum(len(found.lengths) for found in made.values())
            rate = self.images / max(time.monotonic() - self.started, 1e-3)
            done = self.total - len(self.left)
            print(f"shards {done}/{self.total}, {self.images:,} images, {rate:.0f} images/s", flush=True)


def main(run_directory: Path) -> None:
    config = PrepareConfig.model_validate_json((run_directory / "config.json").read_text())
    hvd.init()
    tf.config.set_visible_devices([], "GPU")
    started = time.monotonic()
    target = Path(config.target)
    target.mkdir(parents=True, exist_ok=True)
    tasks = _tasks(config)
    with ThreadPoolExecutor(config.threads) as pool:
        made, unreadable = _work(config, tasks, pool)
    manifest = _manifest(tasks, target, unreadable)
    if hvd.rank() == 0:
        _finish(target, manifest)
        _summary(target, manifest, made, time.monotonic() - started).write(run_directory / "prepared.json")


def _tasks(config: PrepareConfig) -> list[Task]:
    """Every shard of both splits, the same on every rank."""
    brought = shards.names(Path(config.source)) if config.source == config.target else {}
    if brought:
        return [Task(split, name, []) for split, names in brought.items() for name in names]
    _, *splits = imagenet.images(Path(config.source))
    counts = hvd.broadcast_object(_counts(config) if hvd.rank() == 0 else None, root_rank=0)
    samples = dict(zip(("train", "val"), splits, strict=True))
    return [task for split, count in counts.items() for task in _cut(split, samples[split], count)]


def _counts(config: PrepareConfig) -> dict[str, int]:
    """Shards of each split: as many as an earlier run had begun to make, which may have had fewer ranks."""
    begun = {split: next(Path(config.target).glob(f"{split}-*-of-*.json"), None) for split in config.shards}
    return {split: int(path.stem[-5:]) if path else config.shards[split] for split, path in begun.items()}


def _cut(split: str, samples: imagenet.Samples, count: int) -> list[Task]:
    """The samples in an order of no meaning, so that every shard has images of all classes."""
    order = np.random.default_rng(SEED).permutation(len(samples))
    return [
        Task(split, shards.name(split, number, count), [samples[i] for i in part])
        for number, part in enumerate(np.array_split(order, count))
    ]


def _work(config: PrepareConfig, tasks: list[Task], pool: ThreadPoolExecutor) -> tuple[int, list[str]]:
    """How many shards all ranks made, and what they could not read and may not skip: those shards are not there."""
    target, mine = Path(config.target), tasks[hvd.rank() :: hvd.size()]
    kept = set(pool.map(lambda task: task.name if _is_kept(target, task.name) else "", mine)) - {""}
    for task in mine:
        if task.name not in kept:
            (target / f"{task.name}.json").unlink(missing_ok=True)
    everywhere = set().union(*hvd.allgather_object(kept))
    progress = Progress(target, {task.name for task in tasks} - everywhere, len(tasks))
    unreadable: list[str] = []
    for task in mine:
        if task.name not in kept:
            unreadable += _describe(target, task) if not task.samples else _make(config, task, pool)
            progress.say()
    found = [line for lines in hvd.allgather_object(unreadable) for line in lines]
    progress.say()
    return len(tasks) - len(everywhere), found


def _is_kept(directory: Path, name: str) -> bool:
    found = _described(directory, name)
    return found is not None and records.is_whole(directory, found)


def _described(directory: Path, name: str) -> "Shard | None":
    try:
        return Shard.model_validate_json((directory / f"{name}.json").read_text())
    except (FileNotFoundError, ValidationError):
        return None


def _make(config: PrepareConfig, task: Task, pool: ThreadPoolExecutor) -> list[str]:
    """Write one shard, unless images of it are unreadable and none may be skipped: returns these, with reasons."""
    path = Path(config.target) / task.name
    unfinished = path.with_name(f".{task.name}.part")
    lengths, labels, unreadable = [], [], []
    images = pool.map(lambda sample: _image(Path(config.source) / sample[0]), task.samples)
    with tf.io.TFRecordWriter(str(unfinished)) as writer:
        for (name, number), image in zip(task.samples, images, strict=True):
            if isinstance(image, str):
                unreadable.append(f"{Path(config.source) / name}: {image}")
                print(f"unreadable: {unreadable[-1]}", flush=True)
                continue
            record = _record(*image, name, number + FIRST_LABEL)
            writer.write(record)
            lengths.append(len(record))
            labels.append(number + FIRST_LABEL)
    if unreadable and not config.skip_unreadable:
        unfinished.unlink()
        return unreadable
    unfinished.replace(path)
    _note(path, lengths, labels, unreadable)
    return []


def _image(path: Path) -> "tuple[bytes, int, int] | str":
    """An image file with its height and width; the reason where it cannot be decoded."""
    content = path.read_bytes()
    try:
        height, width, _ = decoding.whole(tf.constant(content)).shape
    except tf.errors.InvalidArgumentError as error:
        return reason_of(error)
    return content, height, width


def _record(content: bytes, height: int, width: int, name: str, label: int) -> bytes:
    """The fields that the published conversion of ImageNet has (github.com/tensorflow/models, inception and slim)."""
    kind = b"JPEG" if content.startswith(imagenet.JPEG_START) else b"PNG"
    path = Path(name)
    texts = {"image/encoded": content, "image/format": kind, "image/filename": path.name.encode(),
             "image/class/synset": path.parent.name.encode(), "image/colorspace": b"RGB"}  # fmt: skip
    numbers = {"image/height": height, "image/width": width, "image/channels": 3, "image/class/label": label}
    features = {key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])) for key, text in texts.items()}
    for key, number in numbers.items():
        features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)


def _describe(directory: Path, task: Task) -> list[str]:
    """Read a shard that the user brought, every checksum in it; returns what is wrong with it."""
    path = directory / task.name
    try:
        lengths, labels = records.read_through(path)
    except tf.errors.OpError as error:
        print(f"damaged: {path}: {reason_of(error)}", flush=True)
        return [f"{path}: {reason_of(error)}"]
    _note(path, lengths, labels, [])
    return []


def _note(path: Path, lengths: list[int], labels: list[int], unreadable: list[str]) -> None:
    """Put a description beside a shard. The checksum is of what was written, as it is read back."""
    Shard(
        name=path.name,
        bytes=path.stat().st_size,
        sha256=records.sha256(path),
        lengths=lengths,
        labels=(min(labels), max(labels)) if labels else None,
        unreadable=unreadable,
    ).write(path.with_name(f"{path.name}.json"))


def _manifest(tasks: Iterable[Task], directory: Path, unreadable: list[str]) -> Manifest:
    """What all ranks made. Ends every rank's program where something is missing from it."""
    if unreadable:
        named = "\n".join([*unreadable[:NAMED], *(["..."] if len(unreadable) > NAMED else [])])
        remedy = "replace or remove them, or use --skip-unreadable"
        sys.exit(f"{len(unreadable)} files cannot be read ({remedy}):\n{named}")
    mine = {task.name: _described(directory, task.name) for task in list(tasks)[hvd.rank() :: hvd.size()]}
    everything = {name: found for part in hvd.allgather_object(mine) for name, found in part.items()}
    found: dict[str, list[Shard]] = {}
    for task in tasks:
        found.setdefault(task.split, []).append(everything[task.name])
    return _require_classes(records.describe(found))


def _require_classes(manifest: Manifest) -> Manifest:
    labels = [shard.labels for several in manifest.shards.values() for shard in several if shard.labels]
    greatest = max((last for _, last in labels), default=0)
    if greatest - manifest.label_base >= imagenet.MAX_CLASSES:
        sys.exit(f"the shards have labels up to {greatest}: at most {imagenet.MAX_CLASSES} classes can be trained on")
    return manifest


def _finish(directory: Path, manifest: Manifest) -> None:
    for left in directory.glob(".*.part"):  # by a run that was killed
        left.unlink(missing_ok=True)
    manifest.write(directory / records.MANIFEST)


def _summary(directory: Path, manifest: Manifest, made: int, seconds: float) -> Prepared:
    every = [shard for several in manifest.shards.values() for shard in several]
    return Prepared(
        directory=str(directory),
        images={split: sum(len(s.lengths) for s in several) for split, several in manifest.shards.items()},
        shards=len(every),
        made=made,
        bytes=sum(shard.bytes for shard in every),
        unreadable=[line for shard in every for line in shard.unreadable],
        seconds=seconds,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
