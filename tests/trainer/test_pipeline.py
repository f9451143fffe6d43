"""The input pipeline is traced once for all epochs and leaks no memory."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.data import batches, pipeline
from orchestrator.trainer.data.batches import Split
from orchestrator.trainer.data.inspection import DataError
from tests import samples

EPOCHS, WARM = 10, 10
LEAK = 2 << 20  # bytes that one epoch would leak if Python created its data set again


def load(directory: Path) -> Split:
    values = {"dataset": "imagenet", "data": str(directory), "image_size": 16, "channels": 3, "augment": True}
    return batches.load(samples.train_config(**values))[0]


def epoch(split: Split, number: int) -> list[np.ndarray]:
    order = split.share(seed=1, epoch=number, world=1, rank=0)
    return [images.numpy() for images, _ in split.batches(order, 8, number, drop_remainder=True)]


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", ["folders", "records"])
def test_epochs_do_not_leak_memory(dataset: Path, kind: str) -> None:
    """Threads, and the allocator's pools for them, come and go with every epoch; the pools have a limit."""
    split = load(dataset / kind)
    for number in range(WARM):
        epoch(split, number)
    before = resident()
    for number in range(EPOCHS):
        assert len(epoch(split, number)) == 5
    assert resident() - before < EPOCHS * LEAK / 4


def test_pipeline_is_traced_once() -> None:
    traced = []

    def example(index: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        traced.append(index)
        return tf.cast(index, tf.float32), index

    split = Split(12, example, 1)
    for size in (12, 8, 4, 12):
        order = np.arange(size)[::-1]
        labels_read = [labels.numpy().tolist() for _, labels in split.batches(order, 4, size, drop_remainder=True)]
        assert labels_read == order.reshape(-1, 4).tolist()
    assert len(traced) == 1


def test_epochs_read_in_parallel_do_not_mix() -> None:
    split = Split(6, lambda index, seed: (index, seed), 1)
    first, other = (iter(split.batches(np.array(order), 2, 7, False)) for order in ([0, 1, 2, 3], [5, 4]))
    batches = [next(first)[0].numpy().tolist(), next(other)[0].numpy().tolist(), next(first)[0].numpy().tolist()]
    assert batches == [[0, 1], [5, 4], [2, 3]]


def test_device_batches_are_prefetched_by_one() -> None:
    numbers = []

    def source() -> Iterator[tuple[tf.Tensor, int]]:
        for number in range(4):
            numbers.append(number)
            yield tf.constant(number), number

    taken_before = [
        (*map(int, batch.result()), len(numbers)) for batch in pipeline.prefetch_to_device(source(), "CPU:0")
    ]
    assert taken_before == [(0, 0, 2), (1, 1, 3), (2, 2, 4), (3, 3, 4)]
    assert list(pipeline.prefetch_to_device(iter([]), "CPU:0")) == []
    assert [batch.result() for batch in pipeline.prefetch_to_device(iter([1, 2]), None)] == [1, 2]


def test_error_in_a_device_batch_appears_one_batch_early() -> None:
    def source() -> Iterator[tf.Tensor]:
        yield tf.constant(1)
        raise DataError("broken")

    with pytest.raises(DataError, match="broken"):
        next(pipeline.prefetch_to_device(source(), "CPU:0"))


def test_no_samples_give_no_batch() -> None:
    split = Split(6, lambda index, seed: (index, seed), 1)
    assert list(split.batches(np.array([], np.int64), 2, 7, drop_remainder=True)) == []
