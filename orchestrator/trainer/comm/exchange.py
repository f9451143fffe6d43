"""Means over ranks of tensors of one type, exchanged in one of three ways.

Horovod 0.28.1 knows no bfloat16, and sums float16 in software without a GPU. So each rank receives one part of every
rank's tensors (alltoall), sums it in float32, and sends the mean to all (allgather): as many bytes as in a ring
allreduce of as many bits (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"), and each number is
rounded twice, before the sum and after it, whatever the number of ranks.

Hierarchical, if each of several nodes has several ranks: the ranks of a node first compute the mean of their tensors,
each of one part. Ranks with the same part then compute its mean over all nodes, and send it to the ranks of their node.
A rank sends as many bytes as before, but a node's link carries those of one rank only. Each number is rounded once
more.

Two ranks send each other everything instead, which is as many bytes in one message, and both compute all means. If they
are all ranks, the operation that updates the weights can do that, without another pass over memory.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

import horovod.tensorflow as hvd
import tensorflow as tf

CARRIERS = {2: tf.float16, 4: tf.float32}  # by bytes: every transport of Horovod moves these; nothing is calculated
ALIGNED = 32  # numbers of 16 bits: TensorFlow slices pieces of whole 64 bytes without copying them (tensor_util.h)


class Neighbours(NamedTuple):
    """Ranks of this rank's node, and those with the same number on every node, both in the same order everywhere."""

    on_node: list[int]
    on_every_node: list[int]


def means(tensors: list[tf.Tensor], predivide: float, name: str, hierarchical: bool) -> list[tf.Tensor]:
    """Compute the mean of each tensor over all ranks, the same bits on every rank.

    Args:
        tensors: This rank's tensors of one type, of the same shapes on every rank.
        predivide: What tensors were divided by; their means are multiplied by it.
        name: Prefix of the operations' names, the same on every rank.
        hierarchical: Compute means within nodes first, if each of several nodes has several ranks.

    Returns:
        The means, of the tensors' type.
    """
    if hvd.size() == 2:
        return _means_of_two(tensors, predivide, name)
    flat, neighbours = _flatten(tensors, hvd.size()), find_neighbours() if hierarchical else None
    if neighbours is None:
        return split(_mean_of_parts(flat, predivide, name), tensors)
    return split(_mean_of_nodes(flat, neighbours, predivide, name), tensors)


@cache
def find_neighbours() -> "Neighbours | None":
    """Return this rank's neighbours if each of several nodes has the same number of ranks, and more than one.

    A collective call.
    """
    with tf.init_scope():  # also while a function is traced
        places = sorted(hvd.allgather_object((hvd.cross_rank(), hvd.local_rank(), hvd.rank())))
    on_node = [rank for node, _, rank in places if node == hvd.cross_rank()]
    on_every_node = [rank for _, number, rank in places if number == hvd.local_rank()]
    several = hvd.is_homogeneous() and min(len(on_node), len(on_every_node)) > 1
    return Neighbours(on_node, on_every_node) if several else None


def _means_of_two(own: list[tf.Tensor], predivide: float, name: str) -> list[tf.Tensor]:
    flat = _flatten(own, 1)
    received = _swap([0, 1], [flat, flat], f"{name}.all")[1 - hvd.rank()]
    return [mean(pair, predivide) for pair in zip(own, split(received, own), strict=True)]


def _mean_of_parts(flat: tf.Tensor, predivide: float, name: str) -> tf.Tensor:
    world = hvd.size()
    parts = _transfer(flat, partial(hvd.alltoall, name=f"{name}.parts"))
    own = mean(tf.unstack(tf.reshape(parts, [world, -1])), predivide)
    return _transfer(own, partial(hvd.allgather, name=f"{name}.means"))


def _mean_of_nodes(flat: tf.Tensor, neighbours: Neighbours, predivide: float, name: str) -> tf.Tensor:
    near, far = neighbours
    of_node = mean(_swap(near, tf.split(flat, len(near)), f"{name}.node"), 1.0)
    part = _mean_among(far, of_node, predivide, f"{name}.nodes")
    return tf.concat(_swap(near, [part] * len(near), f"{name}.parts"), 0)


def _mean_among(ranks: list[int], numbers: tf.Tensor, predivide: float, name: str) -> tf.Tensor:
    if len(ranks) == 2:
        return mean(_swap(ranks, [numbers] * 2, name), predivide)
    own = mean(_swap(ranks, tf.split(numbers, len(ranks)), name), predivide)
    return tf.concat(_swap(ranks, [own] * len(ranks), f"{name}.means"), 0)


def _swap(ranks: list[int], pieces: list[tf.Tensor], name: str) -> list[tf.Tensor]:
    """Send each of ``ranks`` its piece, all of one size; return the pieces that they sent, and this rank's own."""
    others = {rank: piece for rank, piece in zip(ranks, pieces, strict=True) if rank != hvd.rank()}
    length = pieces[0].shape[0]
    splits = [length if rank in others else 0 for rank in range(hvd.size())]
    sent = tf.concat([others[rank] for rank in sorted(others)], 0)
    moved = _transfer(sent, lambda numbers: hvd.alltoall(numbers, splits, name=name)[0])
    received = dict(zip(sorted(others), tf.split(tf.ensure_shape(moved, sent.shape), len(others)), strict=True))
    return [received.get(rank, piece) for rank, piece in zip(ranks, pieces, strict=True)]


def mean(parts: Sequence[tf.Tensor], predivide: float) -> tf.Tensor:
    """Average one tensor of every rank in float32, rounded to their type; see :func:`means`."""
    dtype = parts[0].dtype
    if len(parts) == 2 and dtype != tf.float16 and predivide == 1.0:
        # A sum of two in bfloat16 equals the rounded float32 sum, and halving is exact. See casts.undo_mean.
        return (parts[0] + parts[1]) * tf.constant(0.5, dtype)
    return tf.cast(tf.add_n([tf.cast(part, tf.float32) for part in parts]) * (predivide / len(parts)), dtype)


def _flatten(tensors: list[tf.Tensor], world: int) -> tf.Tensor:
    """Concatenate all tensors, each padded with zeros to whole pieces, and the whole to equal parts for all ranks."""
    flat, filled, dtype = list[tf.Tensor](), [_padded_length(tensor) for tensor in tensors], tensors[0].dtype
    for tensor, length in zip(tensors, filled, strict=True):
        flat += [tf.reshape(tensor, [-1]), tf.zeros([length - tensor.shape.num_elements()], dtype)]
    flat.append(tf.zeros([-sum(filled) % (ALIGNED * world)], dtype))
    return tf.concat([piece for piece in flat if piece.shape[0]], axis=0)


def _padded_length(tensor: tf.Tensor) -> int:
    return -(-int(tensor.shape.num_elements()) // ALIGNED) * ALIGNED


def _transfer(numbers: tf.Tensor, move: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    return tf.bitcast(move(tf.bitcast(numbers, CARRIERS[numbers.dtype.size])), numbers.dtype)


def split(flat: tf.Tensor, like: list[tf.Tensor], padded: bool = True) -> list[tf.Tensor]:
    """Cut ``flat`` into tensors of the shapes of ``like``, which lie in it one after the other, with their padding."""
    lengths = [_padded_length(tensor) if padded else tensor.shape.num_elements() for tensor in like]
    firsts = [end - length for end, length in zip(accumulate(lengths), lengths, strict=True)]
    cut = [flat[first : first + tensor.shape.num_elements()] for first, tensor in zip(firsts, like, strict=True)]
    return [tf.reshape(piece, tensor.shape) for piece, tensor in zip(cut, like, strict=True)]
