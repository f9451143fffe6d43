"""Measure the cost of input: ``python -m bench.input IMAGENET`` inside the trainer's image prints a table.

The rows are measured in turns, a few hundred images at a time, so that other load on the machine affects all of them
alike. The others are compared with the first row, whole JPEGs decoded by tf.data and discarded: a ratio is the median
of the rounds' ratios. Images per second are per second of CPU that the process used, all threads together.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from orchestrator.schema import LOCAL_DATA, TrainConfig
from orchestrator.trainer.data import batches as data_batches
from orchestrator.trainer.data import imagenet, manifests, pipeline, tfrecord_format
from orchestrator.trainer.data.batches import Split

IMAGES, BATCH, SHARDS = 400, 32, 4
Batches = Callable[[int], Iterable[Any]]


def config(data: Path, size: int, threads: int) -> TrainConfig:
    """Return the configuration of a run that reads images.

    Args:
        data: Directory of the images or shards.
        size: Height and width of the decoded images, pixels.
        threads: Number of threads.

    Returns:
        The configuration.
    """
    shape = {"model": "resnet50", "dataset": "imagenet", "image_size": size, "channels": 3, "classes": 1000}
    rates = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0, "warmup_epochs": 0, "schedule": "step"}
    how = {"epochs": 1, "batch_size": BATCH, "seed": 1, "precision": "float32", "fp16_allreduce": False}
    return TrainConfig(run="input", data=str(data), augment=True, threads=threads, **shape, **rates, **how)


def write_shards(source: Path, target: Path) -> None:
    """Write the images of ``source`` as shards, as `orchestrator data prepare` does."""
    target.mkdir()
    _, train, test = imagenet.images(source)
    for split, samples in (("train", train), ("val", test)):
        for number in range(SHARDS):
            with tf.io.TFRecordWriter(str(target / tfrecord_format.name(split, number, SHARDS))) as writer:
                for path, label in samples[number::SHARDS]:
                    writer.write(record((source / path).read_bytes(), label + 1))


def record(content: bytes, label: int) -> bytes:
    image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[content]))
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
    fields = tf.train.Features(feature={manifests.ENCODED: image, manifests.LABEL: number})
    return bytes(tf.train.Example(features=fields).SerializeToString())


def decoded(source: Path, threads: int) -> Batches:
    """Decode whole images with tf.data as its guide does it, and keep one pixel of each."""
    paths = tf.constant([str(source / path) for path, _ in imagenet.images(source)[1]])

    def pixel(number: tf.Tensor) -> tf.Tensor:
        return tf.image.decode_jpeg(tf.io.read_file(tf.gather(paths, number)), channels=3)[0, 0]

    numbers = np.arange(IMAGES) % len(paths)
    data = tf.data.Dataset.from_tensor_slices(numbers).map(pixel, num_parallel_calls=threads, deterministic=True)
    data = data.batch(BATCH, drop_remainder=True).prefetch(2).with_options(pipeline.options(threads, rewritten=True))
    return lambda _: data


def batches(split: Split) -> Batches:
    numbers = np.random.default_rng(1).permutation(np.arange(IMAGES) % split.size)
    return lambda epoch: split.batches(numbers, BATCH, epoch, drop_remainder=True)


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cost(source: Batches, epoch: int) -> float:
    """Return microseconds of CPU per image."""
    started, images = cpu_seconds(), 0
    for _ in source(epoch):
        images += BATCH
    return (cpu_seconds() - started) / images * 1e6


def measure(sources: dict[str, Batches], rounds: int) -> list[dict[str, Any]]:
    costs: dict[str, list[float]] = {name: [] for name in sources}
    for number in range(rounds + 1):
        for name in sources if number % 2 else reversed(sources):
            costs[name].append(cost(sources[name], number))
    first = next(iter(sources))
    ratios = {name: [a / b for a, b in zip(costs[first], own, strict=True)][1:] for name, own in costs.items()}
    rates = {name: 1e6 / statistics.median(own[1:]) for name, own in costs.items()}
    return [
        {"what": name, "images_per_cpu_second": rate, "ratio": statistics.median(ratios[name])}
        for name, rate in rates.items()
    ]


def resident() -> int:
    """Return the resident memory of this process, bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(source: Batches, epochs: int) -> dict[str, float]:
    """Return the memory of this process after one epoch, and after ``epochs`` more, MiB."""
    for _ in source(0):
        pass
    before = resident()
    for epoch in range(epochs):
        for _ in source(epoch):
            pass
    return {"before": before / 2**20, "after": resident() / 2**20}


@contextmanager
def places(source: Path) -> Iterator[dict[str, Path]]:
    """Provide the same images in several places, by name; after the first epoch all are read from the node's memory."""
    Path(LOCAL_DATA).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as shared, tempfile.TemporaryDirectory(dir=LOCAL_DATA) as local:
        for directory in (shared, local):
            write_shards(source, Path(directory) / "r")
        yield {"class folders": source, "staged records": Path(local) / "r", "shared records": Path(shared) / "r"}


def sources(directories: dict[str, Path], size: int, threads: int) -> dict[str, Batches]:
    """Return the batches of every place, and the batches of tf.data's decoding only.

    Args:
        directories: Directories by name.
        size: Height and width of the decoded images, pixels.
        threads: Number of threads.

    Returns:
        Batches by name.
    """
    data = directories["class folders"]
    splits = {name: data_batches.load(config(place, size, threads))[0] for name, place in directories.items()}
    return {"decoding alone": decoded(data, threads), **{name: batches(split) for name, split in splits.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("imagenet", type=Path, help="class folders: train/ and val/")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[224, 128])
    parser.add_argument("--cores", type=int, default=1)
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    tf.config.threading.set_intra_op_parallelism_threads(args.cores)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    with places(args.imagenet) as directories:
        for size in args.sizes:
            read = sources(directories, size, args.cores)
            for row in measure(read, args.rounds):
                print(json.dumps({"size": size, **row}), flush=True)
        for name, source in list(read.items())[1:]:
            print(json.dumps({"what": f"memory, {name}, 10 epochs", **growth(source, 10)}), flush=True)
    paths = [args.imagenet / path for path, _ in imagenet.images(args.imagenet)[1]]
    stored = statistics.mean(path.stat().st_size for path in paths)
    print(json.dumps({"what": "bytes per image", "stored": stored, "to the device": [3 * s**2 for s in args.sizes]}))


if __name__ == "__main__":
    main()
