"""Batches for one rank: which samples, in which order, decoded and augmented."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer import arrays, imagenet
from orchestrator.trainer.decoding import central_view, random_view, split_seed

Example = tuple[tf.Tensor, tf.Tensor]


@dataclass(frozen=True)
class Split:
    """One split of a data set: its size, and how to make a sample of it.

    A sample is an image uint8 (h, w, c), or a table's row float32 (1, 1, features), and its label int64.
    """

    size: int
    example: Callable[[tf.Tensor, tf.Tensor], Example]
    workers: int

    def batches(self, indices: np.ndarray, batch: int, seed: int, drop_remainder: bool) -> tf.data.Dataset:
        """Batches of the samples ``indices`` in that order; ``seed`` steers augmentation."""
        seeds = np.stack([np.full(len(indices), seed), indices], axis=1).astype(np.int32)
        data = tf.data.Dataset.from_tensor_slices((indices.astype(np.int64), seeds))
        data = data.map(self.example, num_parallel_calls=self.workers, deterministic=True)
        return data.batch(batch, drop_remainder=drop_remainder).prefetch(2)


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
    all_images, all_labels = tf.constant(images), tf.constant(labels)

    def example(index: tf.Tensor, seed: tf.Tensor) -> Example:
        image = tf.gather(all_images, index)
        return (_moved(image, seed, config) if augment else image), tf.gather(all_labels, index)

    return Split(len(labels), example, config.threads)


def _moved(image: tf.Tensor, seed: tf.Tensor, config: TrainConfig) -> tf.Tensor:
    """A random crop of the padded image, mirrored or not (He et al. 2016, section 4.2)."""
    pad = config.shift
    padded = tf.pad(image, [[pad, pad], [pad, pad], [0, 0]])
    crop, flip = split_seed(seed)
    moved = tf.image.stateless_random_crop(padded, image.shape, crop)
    return tf.image.stateless_random_flip_left_right(moved, flip) if config.flip else moved


def _imagenet(config: TrainConfig, directory: Path) -> tuple[Split, Split]:
    _, train, test = imagenet.images(directory)
    return _files(directory, train, config, random_view), _files(directory, test, config, central_view)


def _files(
    directory: Path,
    samples: list[tuple[str, int]],
    config: TrainConfig,
    view: Callable[[tf.Tensor, int, tf.Tensor], tf.Tensor],
) -> Split:
    paths = tf.constant([str(directory / path) for path, _ in samples])
    labels = tf.constant([label for _, label in samples], tf.int64)

    def example(index: tf.Tensor, seed: tf.Tensor) -> Example:
        image = view(tf.io.read_file(tf.gather(paths, index)), config.image_size, seed)
        return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8), tf.gather(labels, index)

    return Split(len(samples), example, config.threads)
