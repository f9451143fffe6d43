"""Batches for one rank: selection and order of samples, as a tf.data pipeline of decoded and augmented images."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data import decoding, imagenet, manifests, pipeline, tfrecord_reader
from orchestrator.trainer.data import in_memory as data_in_memory
from orchestrator.trainer.data.augmentation import central_view, random_view, shift_and_flip
from orchestrator.trainer.data.bad_samples import Batches, MakeBatches, OnSkip, SampleChecker
from orchestrator.trainer.data.pipeline import Pipeline
from orchestrator.trainer.data.sample_order import epoch_order, mixed_order
from orchestrator.trainer.data.tfrecord_reader import Records

Example = tuple[tf.Tensor, tf.Tensor]
Make = Callable[[tf.Tensor, tf.Tensor], Example]


@dataclass
class Split:
    """One split of a data set: its size, and how to make its samples.

    A sample is an image uint8 (h, w, c), or a table's row float32 (1, 1, features), and its label int64.

    Attributes:
        size: Number of samples.
        example: Makes a sample from its number, or with ``records`` from the content of its record, and its seed.
            If the split is ``in_memory``, it makes a whole batch from all numbers and seeds.
        workers: Threads that make samples.
        records: TFRecord shards that hold the samples.
        name: Names a sample by its number.
        in_memory: Whether all samples are in memory.
        is_table: Whether they are rows of a table in memory, which need no work before a step.
        whole: Makes a sample with its whole image, to check that it can be read: a crop may leave out the damaged part.
    """

    size: int
    example: Make
    workers: int
    records: "Records | None" = None
    name: Callable[[int], str] = "sample {}".format
    in_memory: bool = False
    is_table: bool = False
    whole: "Make | None" = None

    def __post_init__(self) -> None:
        self._pipelines: dict[tuple[int, bool, Make], Pipeline] = {}
        decode = self.whole or self.example
        self.checker = SampleChecker(lambda indices: self._pipeline(1, False, decode)(indices, 0), self.name)

    def share(self, seed: int, epoch: int, world: int, rank: int) -> np.ndarray:
        """Return the samples that a rank trains on in this epoch.

        Args:
            seed: Seed of the run.
            epoch: Number of the epoch, from 1.
            world: Number of ranks.
            rank: Number of the rank.

        Returns:
            Numbers of samples in order, int64. The shares of two ranks differ in size by one sample at most.
        """
        if self.records:
            return self.records.share(seed, epoch, world, rank)
        return epoch_order(self.size, seed, epoch)[rank::world]

    def part(self, world: int, rank: int) -> np.ndarray:
        """Return the samples that a rank evaluates: all ranks together evaluate each sample once."""
        return self.records.part(world, rank) if self.records else np.arange(rank, self.size, world)

    def batches(
        self, indices: np.ndarray, batch: int, seed: int, drop_remainder: bool, on_skip: "OnSkip | None" = None
    ) -> Batches:
        """Return batches of the samples ``indices`` in that order.

        Args:
            indices: Numbers of samples, int64 (n).
            batch: Samples per batch.
            seed: Seed of the augmentation.
            drop_remainder: Give whole batches only.
            on_skip: Called with name and fault of each damaged sample, which is then left out, or replaced by another
                of its batch with ``drop_remainder``. Without it, a damaged sample is an error.

        Returns:
            The batches: images and labels.
        """
        if self.is_table:
            make: MakeBatches = partial(self._rows, batch, drop_remainder)
        else:
            make = partial(self._pipeline(batch, drop_remainder, self.example), seed=seed)
        return Batches(make, indices, batch, self.checker, drop_remainder, on_skip)

    def _rows(self, batch: int, drop_remainder: bool, numbers: np.ndarray) -> Iterator[Example]:
        """Yield batches of a table without tf.data, whose pipeline takes as long to begin as 60 steps on rows."""
        end = len(numbers) - len(numbers) % batch if drop_remainder else len(numbers)
        for first in range(0, end, batch):
            yield self.example(numbers[first : first + batch], None)

    def _pipeline(self, batch: int, drop_remainder: bool, example: Make) -> Pipeline:
        """Return the pipeline for these arguments, which is traced at its first use and then kept."""

        def make(numbers: tf.Tensor, seeds: tf.Tensor) -> tf.data.Dataset:
            options = {"num_parallel_calls": self.workers, "deterministic": True}
            if self.in_memory:
                # A step for each batch: a data set with one for each sample takes longer.
                size = tf.size(numbers, tf.int64)
                firsts = tf.data.Dataset.range(0, size - size % batch if drop_remainder else size, batch)
                data = firsts.map(lambda n: example(numbers[n : n + batch], seeds[n : n + batch]), **options)
            else:
                data = self._inputs(numbers, seeds).map(example, **options).batch(batch, drop_remainder=drop_remainder)
            readers = self.records.readers if self.records else 0
            return data.prefetch(2).with_options(pipeline.options(self.workers + readers, rewritten=not self.in_memory))

        if (batch, drop_remainder, example) not in self._pipelines:
            self._pipelines[batch, drop_remainder, example] = Pipeline(make, self.size)
        return self._pipelines[batch, drop_remainder, example]

    def _inputs(self, numbers: tf.Tensor, seeds: tf.Tensor) -> tf.data.Dataset:
        """Return the inputs of ``example``: numbers or contents of records, with the seed of each."""
        if not self.records:
            return tf.data.Dataset.from_tensor_slices((numbers, seeds))
        return tf.data.Dataset.zip((self.records.contents(numbers), tf.data.Dataset.from_tensor_slices(seeds)))


def load(config: TrainConfig) -> tuple[Split, Split]:
    """Load the training split and the test split that ``config`` names, of the test no more than it evaluates."""
    if config.dataset == "imagenet":
        return _imagenet(config, Path(config.data or ""))
    train, test = data_in_memory.read(config)
    augment = config.augment and train[0].dtype == np.uint8  # a table's row cannot be cropped
    return _in_memory(*train, config, augment), _in_memory(*test, config, False)


def _in_memory(images: np.ndarray, labels: np.ndarray, config: TrainConfig, augment: bool) -> Split:
    """Return a split with as many samples as ``labels``; fewer ``images`` are repeated."""
    with tf.device("CPU:0"):
        all_images, all_labels = tf.constant(images), tf.constant(labels)

    def examples(indices: tf.Tensor, seeds: tf.Tensor) -> Example:
        with tf.device("CPU:0"):
            batch = tf.gather(all_images, indices % len(images))
            return (shift_and_flip(batch, seeds, config) if augment else batch), tf.gather(all_labels, indices)

    return Split(len(labels), examples, config.threads, in_memory=True, is_table=images.dtype != np.uint8)


def _imagenet(config: TrainConfig, directory: Path) -> tuple[Split, Split]:
    train_view = partial(random_view, mirror=config.flip) if config.augment else central_view
    if manifests.has_shards(directory):
        splits = tfrecord_reader.load(directory, config.classes)
        evaluated = splits["val"].first(config.test_samples)
        return _record_split(splits["train"], config, train_view), _record_split(evaluated, config, central_view)
    classes, train, test = imagenet.images(directory)
    imagenet.require_classes(directory, len(classes), config.classes)
    test = _mixed_first(test, config.test_samples)
    return _file_split(directory, train, config, train_view), _file_split(directory, test, config, central_view)


def _mixed_first(samples: imagenet.Samples, count: "int | None") -> imagenet.Samples:
    """Return ``count`` samples of all classes, those that are first in shards of `data prepare`; all if it is None."""
    if count is None or count >= len(samples):
        return samples
    return [samples[number] for number in mixed_order(len(samples))[:count]]


View = Callable[[tf.Tensor, int, tf.Tensor], tf.Tensor]


def _record_split(records: Records, config: TrainConfig, view: View) -> Split:
    def example(content: tf.Tensor, seed: tf.Tensor, view: View = view) -> Example:
        encoded, label = records.parse(content)
        return view(encoded, config.image_size, seed), label

    whole = partial(example, view=decoding.whole)
    return Split(len(records), example, config.threads, records, records.name, whole=whole)


def _file_split(directory: Path, samples: imagenet.Samples, config: TrainConfig, view: View) -> Split:
    paths = tf.constant([str(directory / path) for path, _ in samples])
    labels = tf.constant([label for _, label in samples], tf.int64)

    def example(index: tf.Tensor, seed: tf.Tensor, view: View = view) -> Example:
        image = view(tf.io.read_file(tf.gather(paths, index)), config.image_size, seed)
        return image, tf.gather(labels, index)

    name, whole = (lambda index: str(directory / samples[index][0])), partial(example, view=decoding.whole)
    return Split(len(samples), example, config.threads, name=name, whole=whole)
