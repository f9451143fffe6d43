"""Steps whose loss or gradient is not a number, in a run that is to go on after them: no rank applies the update.

All ranks judge alike, without a word to the host: whether any rank's loss is no number is a sum that travels while
gradients are still being computed, and the averaged gradients are the same on all of them. Where a scaled loss may
overflow (float16) the optimizer judges gradients by itself, and lowers the scale.

A step that is not applied leaves everything as it was, also the statistics of batch normalisation, and its images are
not counted. The host looks at how many there were where it waits for all ranks anyway.

Whose loss it was is noted by each rank for itself, whether steps are skipped or not: a step later it is everyone's.
"""

import sys
from collections.abc import Callable

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

IN_A_ROW = 20  # the next one will not be better: the weights are
NEVER = 2**62


class Guard:
    """Around the update of a step in a compiled function; without ``on``, it keeps no step from changing anything."""

    def __init__(self, on: bool, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
        self.on, self.optimizer = on, optimizer
        self._statistics = [v.value for v in model.non_trainable_variables if v.dtype == "float32"]
        self._counts = tf.Variable([0, 0], trainable=False, dtype=tf.int64)  # all, and the latest in a row
        self._made, self._bad = (tf.Variable(n, trainable=False, dtype=tf.int64) for n in (0, NEVER))

    def before(self) -> list[tf.Tensor]:
        """What a forward pass changes, as it is before that."""
        return [tf.identity(variable) for variable in self._statistics] if self.on else []

    def apply(
        self, update: Callable[[], object], scores: tf.Tensor, gradients: list[tf.Tensor], before: list[tf.Tensor]
    ) -> tf.Tensor:
        """Do ``update``, unless this step is skipped; the rank's scores of it, whose first is the summed loss."""
        self._note(scores[0])
        if not self.on:
            update()
            return scores
        usable = self._usable(scores[0], gradients)
        tf.cond(usable, lambda: _done(update), tf.no_op)
        for variable, old in zip(self._statistics, before, strict=True):
            variable.assign(tf.where(usable, variable.read_value(), old))
        skipped = tf.cast(tf.logical_not(usable), tf.int64)
        self._counts.assign(skipped * (self._counts + 1) + (1 - skipped) * self._counts * [1, 0])
        return tf.where(usable, scores, tf.zeros_like(scores))

    def _note(self, loss: tf.Tensor) -> None:
        number = self._made.assign_add(1)
        self._bad.assign(tf.minimum(self._bad, tf.where(tf.math.is_finite(loss), tf.constant(NEVER, tf.int64), number)))

    def _usable(self, loss: tf.Tensor, gradients: list[tf.Tensor]) -> tf.Tensor:
        bad = tf.cast(tf.logical_not(tf.math.is_finite(loss)), tf.int32)
        with tf.device("CPU:0"):
            anyones = hvd.allreduce(bad, op=hvd.Sum, name="unusable") if hvd.size() > 1 else tf.identity(bad)
        usable = tf.equal(anyones, 0)
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            return usable
        return tf.reduce_all([usable, *(tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients)])

    @property
    def skipped(self) -> int:
        """How many steps; waits for the last one."""
        return int(self._counts[0]) if self.on else 0

    @property
    def bad(self) -> "int | None":
        """The first of this rank's steps here whose own loss was no number, from 1 on; waits for the last one."""
        return number if (number := int(self._bad)) < NEVER else None

    def forget(self) -> None:
        """The next such step is the first again."""
        self._bad.assign(NEVER)

    def check(self, place: str) -> None:
        """Ends every rank's program where no step could be applied for long."""
        if self.on and int(self._counts[1]) >= IN_A_ROW:
            what = f"the loss was no number in the last {int(self._counts[1])} steps, {place}"
            sys.exit(f"{what}: a new run with a smaller --learning-rate may do better")


def _done(update: Callable[[], object]) -> tf.Operation:
    update()
    return tf.no_op()
