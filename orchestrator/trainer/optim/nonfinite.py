"""Steps whose loss or gradient is not a number, in a run that skips them: no rank applies the update.

All ranks decide alike without involving the host: the number of ranks whose loss is not a number is a sum that travels
while gradients are still being computed, and the averaged gradients are the same on all ranks. If a scaled loss may
overflow (float16), the optimizer itself checks the gradients and lowers the scale.

A skipped step leaves everything as it was, also the statistics of batch normalisation, and its images are not counted.
The host reads the number of skipped steps when it waits for all ranks anyway.

Each rank notes whether the loss was its own, whether steps are skipped or not: one step later it is every rank's.
"""

import sys
from collections.abc import Callable

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

CHECK_STEPS = 50  # between two checks that the loss is a number: each waits for all ranks
MAX_SKIPPED_IN_A_ROW = 20  # by then the weights are bad, and the next step fails too
NEVER = 2**62


class Guard:
    """Guard around the update of a step in a compiled function; unless ``on``, it skips nothing."""

    def __init__(self, on: bool, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
        self.on, self.optimizer = on, optimizer
        self._statistics = [v.value for v in model.non_trainable_variables if v.dtype == "float32"]
        self._counts = tf.Variable([0, 0], trainable=False, dtype=tf.int64)  # all, and the latest in a row
        self._steps, self._first_bad = (tf.Variable(n, trainable=False, dtype=tf.int64) for n in (0, NEVER))

    def save_statistics(self) -> list[tf.Tensor]:
        """Return copies of the statistics that a forward pass changes."""
        return [tf.identity(variable) for variable in self._statistics] if self.on else []

    def apply(
        self, update: Callable[[], object], scores: tf.Tensor, gradients: list[tf.Tensor], before: list[tf.Tensor]
    ) -> tf.Tensor:
        """Run the update unless this step is skipped.

        Args:
            update: Applies the gradients.
            scores: The rank's scores of the step, float32; the first is the summed loss.
            gradients: Means over all ranks.
            before: As returned by :meth:`save_statistics`.

        Returns:
            ``scores``, or zeros if the step is skipped.
        """
        self._record_bad_step(scores[0])
        if not self.on:
            update()
            return scores
        usable = self._usable(scores[0], gradients)
        tf.cond(usable, lambda: _run(update), tf.no_op)
        for variable, old in zip(self._statistics, before, strict=True):
            variable.assign(tf.where(usable, variable.read_value(), old))
        skipped = tf.cast(tf.logical_not(usable), tf.int64)
        self._counts.assign(skipped * (self._counts + 1) + (1 - skipped) * self._counts * [1, 0])
        return tf.where(usable, scores, tf.zeros_like(scores))

    def _record_bad_step(self, loss: tf.Tensor) -> None:
        number = self._steps.assign_add(1)
        self._first_bad.assign(
            tf.minimum(self._first_bad, tf.where(tf.math.is_finite(loss), tf.constant(NEVER, tf.int64), number))
        )

    def _usable(self, loss: tf.Tensor, gradients: list[tf.Tensor]) -> tf.Tensor:
        bad = tf.cast(tf.logical_not(tf.math.is_finite(loss)), tf.int32)
        with tf.device("CPU:0"):
            bad_ranks = hvd.allreduce(bad, op=hvd.Sum, name="unusable") if hvd.size() > 1 else tf.identity(bad)
        usable = tf.equal(bad_ranks, 0)
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            return usable
        return tf.reduce_all([usable, *(tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients)])

    @property
    def skipped(self) -> int:
        """Number of skipped steps; waits for the last step."""
        return int(self._counts[0]) if self.on else 0

    @property
    def first_bad_step(self) -> "int | None":
        """First of this rank's steps, from 1, whose own loss was not a number; waits for the last step."""
        return number if (number := int(self._first_bad)) < NEVER else None

    def reset_bad_step(self) -> None:
        """Forget :attr:`first_bad_step`."""
        self._first_bad.assign(NEVER)

    def check(self, position: str) -> None:
        """End the program of every rank if too many steps in a row were skipped."""
        if self.on and int(self._counts[1]) >= MAX_SKIPPED_IN_A_ROW:
            problem = f"the loss was not a number in the last {int(self._counts[1])} steps, {position}"
            sys.exit(f"{problem}: use a smaller --learning-rate in a new run")


def _run(update: Callable[[], object]) -> tf.Operation:
    update()
    return tf.no_op()
