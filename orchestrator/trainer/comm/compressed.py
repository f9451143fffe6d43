"""Exchange among ranks in few messages: rank 0's variables, and means of gradients in 16 bits or between two ranks.

Gradients in 16 bits are summed in 32 bits, whatever carries Horovod's messages: Horovod 0.28.1 knows no bfloat16 at
all, and sums float16 in software without a GPU. So each rank receives one part of every rank's gradients (alltoall),
sums it in float32, and sends the mean to all (allgather): as many bytes as in a ring allreduce of as many bits
(Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"), and each number is rounded twice, before the sum
and after it, whatever the number of ranks.

Two ranks send each other all their gradients instead, which are as many bytes in one message, and both compute all
means: the operation that updates the weights can do that, without another pass over memory.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby

import horovod.tensorflow as hvd
import tensorflow as tf

DTYPES = {"none": tf.float32, "fp16": tf.float16, "bf16": tf.bfloat16}
CARRIERS = {2: tf.float16, 4: tf.float32}  # by bytes: every transport of Horovod moves these; nothing is calculated
ALIGNED = 32  # numbers of 16 bits: TensorFlow slices pieces of whole 64 bytes without copying them (tensor_util.h)
MESSAGE_BYTES = 64 << 20  # of variables, unless one alone is larger


def broadcast_variables(variables: list[tf.Variable]) -> None:
    """Copy the values of rank 0 to every rank. A collective call, with variables of the same shapes and types.

    Horovod's own function traces one operation per variable: 1.1 s for ResNet-50, even on one rank.
    """
    if hvd.size() == 1:
        return
    for number, group in enumerate(_messages(variables)):
        flat = tf.concat([tf.reshape(variable, [-1]) for variable in group], axis=0)
        values = hvd.broadcast(flat, root_rank=0, name=f"variables.{number}")
        for variable, value in zip(group, _split(values, group, padded=False), strict=True):
            variable.assign(value)


def _messages(variables: list[tf.Variable]) -> Iterator[list[tf.Variable]]:
    """Group variables into messages, each of one type, in the same order on every rank."""
    for _, group in groupby(sorted(variables, key=lambda v: v.dtype.name), key=lambda v: v.dtype.name):
        alike = list(group)
        sizes = [variable.dtype.size * variable.shape.num_elements() for variable in alike]
        yield from ([alike[index] for index in part] for part in pack(sizes, MESSAGE_BYTES))


def pack(sizes: list[int], limit: float) -> list[list[int]]:
    """Group tensors of ``sizes`` bytes by number, the last first, since backpropagation computes their gradients first.

    Each group has at most ``limit`` bytes, except if it is a single tensor.
    """
    packed: list[list[int]] = []
    room = 0.0
    for number in reversed(range(len(sizes))):
        if not packed or sizes[number] > room:
            packed.append([])
            room = limit
        packed[-1].append(number)
        room -= sizes[number]
    return packed


def means(tensors: list[tf.Tensor], kind: str, predivide: float, name: str) -> list[tf.Tensor]:
    """Compute the mean of each tensor over all ranks, the same bits on every rank.

    Args:
        tensors: This rank's tensors, of the same shapes on every rank.
        kind: Key of DTYPES, the type that travels. "none" is for two ranks.
        predivide: Divides tensors before they are rounded to 16 bits, and multiplies the means while in 32 bits.
        name: Prefix of the operations' names, the same on every rank.

    Returns:
        The means, float32, in the shapes of ``tensors``.
    """
    divided = [tf.cast(tensor, tf.float32) / predivide if predivide != 1.0 else tensor for tensor in tensors]
    rounded = [tf.cast(tensor, DTYPES[kind]) for tensor in divided]
    way = _means_of_two if hvd.size() == 2 else _means_of_parts
    return [tf.cast(averaged, tf.float32) for averaged in way(rounded, predivide, name)]


def _means_of_two(own: list[tf.Tensor], predivide: float, name: str) -> list[tf.Tensor]:
    flat = _flatten(own, 1)
    splits = [0, flat.shape[0]] if hvd.rank() == 0 else [flat.shape[0], 0]
    received = _transfer(flat, lambda numbers: hvd.alltoall(numbers, splits, name=f"{name}.all")[0])
    return [mean(pair, predivide) for pair in zip(own, _split(received, own), strict=True)]


def _means_of_parts(tensors: list[tf.Tensor], predivide: float, name: str) -> list[tf.Tensor]:
    world = hvd.size()
    parts = _transfer(_flatten(tensors, world), partial(hvd.alltoall, name=f"{name}.parts"))
    own = mean(tf.unstack(tf.reshape(parts, [world, -1])), predivide)
    return _split(_transfer(own, partial(hvd.allgather, name=f"{name}.means")), tensors)


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


def _split(flat: tf.Tensor, like: list[tf.Tensor], padded: bool = True) -> list[tf.Tensor]:
    """Cut ``flat`` into tensors of the shapes of ``like``, which lie in it one after the other, with their padding."""
    lengths = [_padded_length(tensor) if padded else tensor.shape.num_elements() for tensor in like]
    firsts = [end - length for end, length in zip(accumulate(lengths), lengths, strict=True)]
    cut = [flat[first : first + tensor.shape.num_elements()] for first, tensor in zip(firsts, like, strict=True)]
    return [tf.reshape(piece, tensor.shape) for piece, tensor in zip(cut, like, strict=True)]
