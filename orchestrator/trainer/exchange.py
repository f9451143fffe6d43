"""What ranks give each other in few messages: rank 0's variables, and means of gradients in 16 bits.

Those are summed in 32 bits, whatever carries Horovod's messages: Horovod 0.28.1 knows no bfloat16 at all, and sums
float16 in software where there is no GPU. So each rank gets one part of everybody's gradients (alltoall), sums it in
float32, and gives the mean of it to all (allgather): as many bytes as in a ring allreduce of as many bits (Patarasuk
and Yuan 2009, "Bandwidth optimal all-reduce algorithms"), and each number is rounded twice, before the sum and after
it, whatever the number of ranks.
"""

from collections.abc import Callable
from itertools import accumulate, groupby, pairwise

import horovod.tensorflow as hvd
import tensorflow as tf

DTYPES = {"fp16": tf.float16, "bf16": tf.bfloat16}
CARRIER = tf.float16  # 16 bits that every transport of Horovod's moves; nothing is calculated in it
MESSAGE_BYTES = 64 << 20  # of variables, unless one alone is larger


def from_first(variables: list[tf.Variable]) -> None:
    """Give every rank the values of rank 0. Every rank calls it, with variables of the same shapes and types.

    Horovod's own function for it traces one operation for each: 1.1 s for ResNet-50, also on one rank.
    """
    if hvd.size() == 1:
        return
    for number, group in enumerate(_messages(variables)):
        flat = tf.concat([tf.reshape(variable, [-1]) for variable in group], axis=0)
        found = hvd.broadcast(flat, root_rank=0, name=f"variables.{number}")
        for variable, value in zip(group, _like(found, group), strict=True):
            variable.assign(value)


def _messages(variables: list[tf.Variable]) -> list[list[tf.Variable]]:
    """In the same order on every rank: each of one type."""
    found: list[list[tf.Variable]] = []
    for _, alike in groupby(sorted(variables, key=lambda v: v.dtype.name), key=lambda v: v.dtype.name):
        room = 0
        for variable in alike:
            needs = variable.dtype.size * variable.shape.num_elements()
            if needs > room:
                found.append([])
                room = MESSAGE_BYTES
            found[-1].append(variable)
            room -= needs
    return found


def means(tensors: list[tf.Tensor], kind: str, predivide: float, name: str) -> list[tf.Tensor]:
    """The mean over all ranks of each of the float32 ``tensors``, the same bits on every rank; ``kind`` of DTYPES.

    Tensors are divided by ``predivide`` before they are rounded to 16 bits, means multiplied with it while in 32.
    """
    world, dtype = hvd.size(), DTYPES[kind]
    flat = _flat([tensor / predivide if predivide != 1.0 else tensor for tensor in tensors], dtype, world)
    parts = tf.reshape(_moved(hvd.alltoall, flat, f"{name}.parts"), [world, -1])
    mean = tf.add_n([tf.cast(parts[rank], tf.float32) for rank in range(world)]) * (predivide / world)
    return _like(_moved(hvd.allgather, tf.cast(mean, dtype), f"{name}.means"), tensors)


def _flat(tensors: list[tf.Tensor], dtype: tf.DType, world: int) -> tf.Tensor:
    """All in one, filled up with zeros to as many numbers for each rank."""
    flat = [tf.reshape(tf.cast(tensor, dtype), [-1]) for tensor in tensors]
    missing = -sum(tensor.shape.num_elements() for tensor in tensors) % world
    return tf.concat([*flat, tf.zeros([missing], dtype)], axis=0)


def _moved(move: Callable[..., tf.Tensor], numbers: tf.Tensor, name: str) -> tf.Tensor:
    return tf.bitcast(move(tf.bitcast(numbers, CARRIER), name=name), numbers.dtype)


def _like(flat: tf.Tensor, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """``flat`` in pieces of the shapes and the type of ``tensors``, without what was filled up."""
    ends = accumulate((tensor.shape.num_elements() for tensor in tensors), initial=0)
    pieces = [flat[first:end] for first, end in pairwise(ends)]
    return [tf.cast(tf.reshape(p, t.shape), t.dtype) for p, t in zip(pieces, tensors, strict=True)]
