"""Conversion of class folders into TFRecord shards, each rank its part.

Run as ``python -m orchestrator.trainer.data.prepare RUN_DIRECTORY``.

A shard that is described and complete is not written again. Shards that the user provided are read through and
described in the same way.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")  # finished ranks wait for the others, for minutes

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import MANIFEST, Manifest, PrepareConfig, Prepared, Shard
from orchestrator.trainer.data import imagenet, manifests, shard_writer, tfrecord_format
from orchestrator.trainer.data.report_failures import end_in_one_line, name_unwritable
from orchestrator.trainer.data.sample_order import mixed_order
from orchestrator.trainer.data.shard_writer import Task

MAX_NAMED = 5


@dataclass
class Progress:
    """Progress of all ranks, read from the shared storage and printed by rank 0.

    ``unwritten`` are the names of the shards that are not written yet, ``total`` is the number of all shards, and
    ``images`` the number of images in shards written since the start.
    """

    directory: Path
    unwritten: set[str]
    total: int
    images: int = 0
    started: float = field(default_factory=time.monotonic)

    def say(self) -> None:
        if hvd.rank() == 0:
            shards = {name: shard_writer.read_description(self.directory, name) for name in self.unwritten}
            written = {name: shard for name, shard in shards.items() if shard}
            self.unwritten -= written.keys()
            self.images += sum(len(shard.lengths) for shard in written.values())
            rate = self.images / max(time.monotonic() - self.started, 1e-3)
            done = self.total - len(self.unwritten)
            print(f"shards {done}/{self.total}, {self.images:,} images, {rate:.0f} images/s", flush=True)


def main(run_directory: Path) -> None:
    hvd.init()
    with end_in_one_line():
        _prepare(run_directory)


def _prepare(run_directory: Path) -> None:
    config = PrepareConfig.model_validate_json((run_directory / "config.json").read_text())
    tf.config.set_visible_devices([], "GPU")
    started = time.monotonic()
    target = Path(config.target)
    target.mkdir(parents=True, exist_ok=True)
    tasks = _tasks(config)
    with ThreadPoolExecutor(config.threads) as pool:
        written, unreadable = _write_shards(config, tasks, pool)
    manifest = _manifest(tasks, target, unreadable)
    if hvd.rank() == 0:
        _finish(target, manifest)
        _summarise(target, manifest, written, time.monotonic() - started).write(run_directory / "prepared.json")


def _tasks(config: PrepareConfig) -> list[Task]:
    """Return every shard of both splits, the same on every rank."""
    provided = tfrecord_format.names(Path(config.source)) if config.source == config.target else {}
    if provided:
        return [Task(split, name, []) for split, names in provided.items() for name in names]
    _, *splits = imagenet.images(Path(config.source))
    counts = hvd.broadcast_object(_counts(config) if hvd.rank() == 0 else None, root_rank=0)
    samples = dict(zip(("train", "val"), splits, strict=True))
    return [task for split, count in counts.items() for task in _divide(split, samples[split], count)]


def _counts(config: PrepareConfig) -> dict[str, int]:
    """Return the number of shards of each split: that of an earlier, unfinished run, which may have had fewer ranks."""
    earlier = {split: next(Path(config.target).glob(f"{split}-*-of-*.json"), None) for split in config.shards}
    return {split: int(path.stem[-5:]) if path else config.shards[split] for split, path in earlier.items()}


def _divide(split: str, samples: imagenet.Samples, count: int) -> list[Task]:
    """Divide shuffled samples into shards, so that every shard has images of all classes."""
    return [
        Task(split, tfrecord_format.name(split, number, count), [samples[i] for i in part])
        for number, part in enumerate(np.array_split(mixed_order(len(samples)), count))
    ]


def _write_shards(config: PrepareConfig, tasks: list[Task], pool: ThreadPoolExecutor) -> tuple[int, list[str]]:
    """Write this rank's shards.

    Returns:
        The number of shards that all ranks wrote, and the images that they could not read and may not skip: the shards
        of those images are not written.
    """
    target, rank_tasks = Path(config.target), tasks[hvd.rank() :: hvd.size()]
    whole = pool.map(lambda task: shard_writer.is_complete(target, task.name), rank_tasks)
    complete = {task.name for task, is_complete in zip(rank_tasks, whole, strict=True) if is_complete}
    unfinished = [task for task in rank_tasks if task.name not in complete]
    for task in unfinished:
        (target / f"{task.name}.json").unlink(missing_ok=True)
    complete_anywhere = set().union(*hvd.allgather_object(complete))
    progress = Progress(target, {task.name for task in tasks} - complete_anywhere, len(tasks))
    unreadable: list[str] = []
    for task in unfinished:
        if task.samples:
            unreadable += shard_writer.write(config, task, pool)
        else:
            unreadable += shard_writer.describe_provided(target, task)
        progress.say()
    all_unreadable = [line for lines in hvd.allgather_object(unreadable) for line in lines]
    progress.say()
    return len(tasks) - len(complete_anywhere), all_unreadable


def _manifest(tasks: list[Task], directory: Path, unreadable: list[str]) -> Manifest:
    """Collect the manifest from all ranks; ends the program of every rank if a part is missing."""
    if unreadable:
        named = "\n".join([*unreadable[:MAX_NAMED], *(["..."] if len(unreadable) > MAX_NAMED else [])])
        provided = not any(task.samples for task in tasks)
        remedy = "provide these shards again" if provided else "replace or remove them, or use --skip-unreadable"
        sys.exit(f"{len(unreadable)} files cannot be read ({remedy}):\n{named}")
    descriptions = {
        task.name: shard_writer.read_description(directory, task.name) for task in tasks[hvd.rank() :: hvd.size()]
    }
    described = {name: shard for part in hvd.allgather_object(descriptions) for name, shard in part.items()}
    shards: dict[str, list[Shard]] = {}
    for task in tasks:
        shards.setdefault(task.split, []).append(described[task.name])
    manifest = manifests.describe(shards)
    greatest = manifest.greatest_label
    if greatest - manifest.label_base >= imagenet.MAX_CLASSES:
        sys.exit(f"the shards have labels up to {greatest}: at most {imagenet.MAX_CLASSES} classes can be trained on")
    return manifest


def _finish(directory: Path, manifest: Manifest) -> None:
    for part in directory.glob(".*.part"):  # of a run that was killed
        part.unlink(missing_ok=True)
    with name_unwritable(directory / MANIFEST):
        manifest.write(directory / MANIFEST)


def _summarise(directory: Path, manifest: Manifest, written: int, seconds: float) -> Prepared:
    shards = manifest.all_shards
    return Prepared(
        directory=str(directory),
        images={split: sum(len(s.lengths) for s in split_shards) for split, split_shards in manifest.shards.items()},
        shards=len(shards),
        written=written,
        bytes=sum(shard.bytes for shard in shards),
        unreadable=[line for shard in shards for line in shard.unreadable],
        seconds=seconds,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
