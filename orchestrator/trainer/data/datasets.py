"""Batches for one rank: which samples, in which order, decoded and augmented."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data import arrays, decoding, imagenet, manifests, pipeline, records
from orchestrator.trainer.data.blame import Batches, Readable, Skipped
from orchestrator.trainer.data.decoding import central_view, random_view
from orchestrator.trainer.data.pipeline import Pipeline
from orchestrator.trainer.data.records import Records

Example = tuple[tf.Tensor, tf.Tensor]
Make = Callable[[tf.Tensor, tf.Tensor], Example]


@dataclass
class Split:
    """One split of a data set: its size, and how to make a sample of it.

    A sample is an image uint8 (h, w, c), or a table's row float32 (1, 1, features), and its label int64. ``example``
    makes it of its number, or where there are ``records`` of the content of its record, and of its seed; of those that
    are ``in_memory`` it makes a batch at once, of all their numbers and seeds. ``whole`` makes it with all of its
    image, by which it is known whether that can be read: a crop may leave out what is damaged.
    """

    size: int
    example: Make
    workers: int
    records: "Records | None" = None
    name: Callable[[int], str] = "sample {}".format
    in_memory: bool = False
    whole: "Make | None" = None

    def __post_init__(self) -> None:
        self._pipelines: dict[tuple[int, bool, Make], Pipeline] = {}
        looked_at = self.whole or self.example
        self.readable = Readable(lambda one: self._pipeline(1, False, looked_at)(one, 0), self.name)

    def share(self, seed: int, epoch: int, world: int, rank: int) -> np.ndarray:
        """The samples that a rank trains on in this epoch, in order: any two ranks differ by one sample at most."""
        if self.records:
            return self.records.share(seed, epoch, world, rank)
        return shard(epoch_order(self.size, seed, epoch), world, rank)

    def part(self, world: int, rank: int) -> np.ndarray:
        """The samples that a rank evaluates: all ranks together each sample once."""
        return self.records.part(world, rank) if self.records else shard(np.arange(self.size), world, rank)

    def batches(
        self, indices: np.ndarray, batch: int, seed: int, drop_remainder: bool, skipped: "Skipped | None" = None
    ) -> Batches:
        """Batches of the samples ``indices`` in that order; ``seed`` steers augmentation.

        With ``skipped``, which is told their names, damaged samples are left out, or replaced by others of their batch
        where a remainder is to be dropped, which wants whole batches.
        """
        made = self._pipeline(batch, drop_remainder, self.example)
        return Batches(lambda todo: made(todo, seed), indices, batch, self.readable, drop_remainder, skipped)

    def _pipeline(self, batch: int, drop_remainder: bool, example: Make) -> Pipeline:
        """Traced at its first use, and the same one ever after."""

        def make(numbers: tf.Tensor, seeds: tf.Tensor) -> tf.data.Dataset:
            data, found = self._found(numbers, seeds), {"num_parallel_calls": self.workers, "deterministic": True}
            if self.in_memory:
                data = data.batch(batch, drop_remainder=drop_remainder).map(example, **found)
            else:
                data = data.map(example, **found).batch(batch, drop_remainder=drop_remainder)
            readers = self.records.readers if self.records else 0
            return data.prefetch(2).with_options(pipeline.options(self.workers + readers))

        if (batch, drop_remainder, example) not in self._pipelines:
            self._pipelines[batch, drop_remainder, example] = Pipeline(make, self.size)
        return self._pipelines[batch, drop_remainder, example]

    def _found(self, numbers: tf.Tensor, seeds: tf.Tensor) -> tf.data.Dataset:
        """What ``example`` is made of: numbers or contents of records, with the seed of each."""
        if not self.records:
            return tf.data.Dataset.from_tensor_slices((numbers, seeds))
        return tf.data.Dataset.zip((self.records.contents(numbers), tf.data.Dataset.from_tensor_slices(seeds)))


def epoch_order(size: int, seed: int, epoch: int) -> np.ndarray:
    """The permutation of range(size) that all ranks share in this epoch."""
    return np.random.default_rng([seed, epoch]).permutation(size)


def shard(order: np.ndarray, world: int, rank: int) -> np.ndarray:
    """Every world-th sample from ``rank`` on: shards are disjoint, cover all, and differ in size by one at most."""
    return order[rank::world]


def load(config: TrainConfig) -> tuple[Split, Split]:
    """The training and the test split that ``config`` names."""
    if config.dataset == "imagenet":
        return _imagenet(config, Path(config.data or ""))
    train, test = arrays.read(config)
    augment = config.augment and train[0].dtype == np.uint8  # a table's row has nothing to crop
    return _in_memory(*train, config, augment), _in_memory(*test, config, False)


def _in_memory(images: np.ndarray, labels: np.ndarray, config: TrainConfig, augment: bool) -> Split:
    """A split of as many samples as ``labels``; where there are fewer ``images``, they come again and again."""
    with tf.device("CPU:0"):
        all_images, all_labels = tf.constant(images), tf.constant(labels)

    def examples(indices: tf.Tensor, seeds: tf.Tensor) -> Example:
        found = tf.gather(all_images, indices % len(images))
        return (_moved(found, seeds, config) if augment else found), tf.gather(all_labels, indices)

    return Split(len(labels), examples, config.threads, in_memory=True)


def _moved(batch: tf.Tensor, seeds: tf.Tensor, config: TrainConfig) -> tf.Tensor:
    """Random crops of the padded images (n, h, w, c), mirrored or not (He et al. 2016, section 4.2)."""
    pad, places = config.shift, 2 * config.shift + 1
    _, height, width, _ = batch.shape
    place, side = tf.unstack(seeds, axis=1)
    rows = (place % places)[:, None] + tf.range(height)
    columns = tf.range(width)[None]
    if config.flip:
        columns = tf.where((side % 2 == 0)[:, None], columns, columns[:, ::-1])
    columns += (place // places % places)[:, None]
    padded = tf.pad(batch, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
    return tf.gather(tf.gather(padded, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)


def _imagenet(config: TrainConfig, directory: Path) -> tuple[Split, Split]:
    if manifests.is_here(directory):
        found = records.load(directory, config.classes)
        return _records(found["train"], config, random_view), _records(found["val"], config, central_view)
    _, train, test = imagenet.images(directory)
    return _files(directory, train, config, random_view), _files(directory, test, config, central_view)


View = Callable[[tf.Tensor, int, tf.Tensor], tf.Tensor]


def _whole(content: tf.Tensor, *_: object) -> tf.Tensor:
    return decoding.whole(content)


def _records(found: Records, config: TrainConfig, view: View) -> Split:
    def example(content: tf.Tensor, seed: tf.Tensor, view: View = view) -> Example:
        encoded, label = found.parse(content)
        return view(encoded, config.image_size, seed), label

    whole = partial(example, view=_whole)
    return Split(len(found), example, config.threads, found, found.name, whole=whole)


def _files(
    directory: Path,
    samples: list[tuple[str, int]],
    config: TrainConfig,
    view: View,
) -> Split:
    paths = tf.constant([str(directory / path) for path, _ in samples])
    labels = tf.constant([label for _, label in samples], tf.int64)

    def example(index: tf.Tensor, seed: tf.Tensor, view: View = view) -> Example:
        image = view(tf.io.read_file(tf.gather(paths, index)), config.image_size, seed)
        return image, tf.gather(labels, index)

    name, whole = (lambda index: str(directory / samples[index][0])), partial(example, view=_whole)
    return Split(len(samples), example, config.threads, name=name, whole=whole)
