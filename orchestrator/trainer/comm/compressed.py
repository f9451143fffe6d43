"""Exchange among ranks in few messages: rank 0's variables, and means of gradients in 16 bits.

Gradients are summed in 32 bits, whatever carries Horovod's messages: Horovod 0.28.1 knows no bfloat16 at all, and sums
float16 in software without a GPU. So each rank receives one part of every rank's gradients (alltoall), sums it in
float32, and sends the mean to all (allgather): as many bytes as in a ring allreduce of as many bits (Patarasuk and Yuan
2009, "Bandwidth optimal all-reduce algorithms"), and each number is rounded twice, before the sum and after it,
whatever the number of ranks.
"""

from collections.abc import Callable
from itertools import accumulate, groupby

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import casts

DTYPES = {"fp16": tf.float16, "bf16": tf.bfloat16}
CARRIER = tf.float16  # 16 bits that every transport of Horovod moves; nothing is calculated in it
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
        shapes = [variable.shape for variable in group]
        for variable, value in zip(group, _split(values, shapes, [s.num_elements() for s in shapes]), strict=True):
            variable.assign(value)


def _messages(variables: list[tf.Variable]) -> list[list[tf.Variable]]:
    """Group variables into messages, each of one type, in the same order on every rank."""
    messages: list[list[tf.Variable]] = []
    for _, alike in groupby(sorted(variables, key=lambda v: v.dtype.name), key=lambda v: v.dtype.name):
        room = 0
        for variable in alike:
            size = variable.dtype.size * variable.shape.num_elements()
            if size > room:
                messages.append([])
                room = MESSAGE_BYTES
            messages[-1].append(variable)
            room -= size
    return messages


def undo_upcast(gradient: tf.Tensor, kind: str) -> tf.Tensor:
    """Return ``gradient`` as it was before its cast to float32, if it was computed in the type that it travels in.

    The bits that travel are the same, without being widened and rounded again. For compiled functions.
    """
    return casts.undo(gradient, DTYPES[kind])


def means(tensors: list[tf.Tensor], kind: str, predivide: float, name: str) -> list[tf.Tensor]:
    """Compute the mean of each tensor over all ranks, the same bits on every rank.

    Args:
        tensors: This rank's tensors, of the same shapes on every rank.
        kind: Key of DTYPES, the 16-bit type that travels.
        predivide: Divides tensors before they are rounded to 16 bits, and multiplies the means while in 32 bits.
        name: Prefix of the operations' names, the same on every rank.

    Returns:
        The means, float32, in the shapes of ``tensors``.
    """
    world, dtype = hvd.size(), DTYPES[kind]
    divided = [tf.cast(tensor, tf.float32) / predivide if predivide != 1.0 else tensor for tensor in tensors]
    parts = tf.reshape(_transfer(hvd.alltoall, _flatten(divided, dtype, world), f"{name}.parts"), [world, -1])
    mean_numbers = _transfer(hvd.allgather, _mean(parts, predivide), f"{name}.means")
    shapes = [tensor.shape for tensor in tensors]
    return [tf.cast(piece, tf.float32) for piece in _split(mean_numbers, shapes, [*map(_padded_length, shapes)])]


def _mean(parts: tf.Tensor, predivide: float) -> tf.Tensor:
    """Average the rows of ``parts`` (ranks x numbers) in float32, rounded to their type."""
    world = parts.shape[0]
    if world == 2 and parts.dtype == tf.bfloat16 and predivide == 1.0:
        # A sum of two in bfloat16 equals the rounded float32 sum, and halving is exact: a third of the memory traffic.
        return (parts[0] + parts[1]) * tf.constant(0.5, tf.bfloat16)
    return tf.cast(
        tf.add_n([tf.cast(parts[rank], tf.float32) for rank in range(world)]) * (predivide / world), parts.dtype
    )


def _flatten(tensors: list[tf.Tensor], dtype: tf.DType, world: int) -> tf.Tensor:
    """Concatenate all tensors, each padded with zeros to whole pieces, and the whole to equal parts for all ranks."""
    flat, filled = list[tf.Tensor](), [_padded_length(tensor.shape) for tensor in tensors]
    for tensor, length in zip(tensors, filled, strict=True):
        flat += [tf.reshape(tf.cast(tensor, dtype), [-1]), tf.zeros([length - tensor.shape.num_elements()], dtype)]
    flat.append(tf.zeros([-sum(filled) % (ALIGNED * world)], dtype))
    return tf.concat([piece for piece in flat if piece.shape[0]], axis=0)


def _padded_length(shape: tf.TensorShape) -> int:
    """Return the padded length of a tensor of this shape."""
    return -(-int(shape.num_elements()) // ALIGNED) * ALIGNED


def _transfer(move: Callable[..., tf.Tensor], numbers: tf.Tensor, name: str) -> tf.Tensor:
    return tf.bitcast(move(tf.bitcast(numbers, CARRIER), name=name), numbers.dtype)


def _split(flat: tf.Tensor, shapes: list[tf.TensorShape], lengths: list[int]) -> list[tf.Tensor]:
    """Cut ``flat`` into tensors of these shapes, each of which ``takes`` a number of elements including its padding."""
    firsts = [end - length for end, length in zip(accumulate(lengths), lengths, strict=True)]
    cut = [flat[first : first + shape.num_elements()] for first, shape in zip(firsts, shapes, strict=True)]
    return [tf.reshape(piece, shape) for piece, shape in zip(cut, shapes, strict=True)]
