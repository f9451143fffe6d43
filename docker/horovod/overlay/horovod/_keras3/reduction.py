"""Gradients of a Keras 3 optimizer, added up over backward passes and reduced over ranks."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod._keras3.native import native


class GradientReduction:
    """Reduce gradients over the ranks of a process set, but for variables that are registered as local.

    ``counter`` holds the number of backward passes since the last reduction.
    """

    def __init__(
        self,
        name: str,
        device_dense: str,
        device_sparse: str,
        compression: Any,
        sparse_as_dense: bool,
        gradient_predivide_factor: float,
        op: Any,
        backward_passes_per_step: int,
        average_aggregated_gradients: bool,
        groups: Any,
        process_set: Any,
        scale_local_gradients: bool,
    ) -> None:
        if backward_passes_per_step < 1:
            raise ValueError(f"backward_passes_per_step={backward_passes_per_step}: pass 1 or more")
        self.passes = backward_passes_per_step
        self.average_passes = average_aggregated_gradients
        self.process_set = process_set
        self.scale_local = scale_local_gradients
        self.sparse_as_dense = sparse_as_dense
        self.local: set[Any] = set()
        self.sums: list[Any] = []
        with tf.init_scope():
            self.counter = tf.Variable(0, trainable=False)
        self._allreduce = hvd._make_allreduce_grads_fn(
            name,
            device_dense,
            device_sparse,
            compression,
            sparse_as_dense,
            op,
            gradient_predivide_factor,
            groups,
            process_set,
        )

    def keep_local(self, variable: Any) -> None:
        """Register a variable whose gradient stays with its rank."""
        self.local.add(native(variable).ref())

    def reduce(self, gradients: Sequence[Any], variables: Iterable[Any]) -> list[Any]:
        """Return the gradients reduced over all ranks, those of local variables divided by the number of ranks."""
        variables = [native(variable) for variable in variables]
        is_local = [variable.ref() in self.local for variable in variables]
        chosen = [place for place, local in enumerate(is_local) if not local]
        reduced = self._allreduce([gradients[place] for place in chosen], [variables[place] for place in chosen])
        result = [self._scaled(gradient) for gradient in gradients]
        for place, gradient in zip(chosen, reduced, strict=True):
            result[place] = gradient
        return result

    def _scaled(self, gradient: Any) -> Any:
        if gradient is None or not self.scale_local:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(self._scaled(gradient.values), gradient.indices, gradient.dense_shape)
        return gradient / tf.cast(self._size(), gradient.dtype)

    def _size(self) -> Any:
        if os.environ.get("HOROVOD_ELASTIC") == "1":  # a graph outlives a change of the number of ranks
            return hvd.size_op(process_set_id=self.process_set.process_set_id)
        return self.process_set.size()

    def accumulate(self, gradients: Iterable[Any], variables: Iterable[Any]) -> Any:
        """Add up the gradients of a backward pass, and tell whether it is the last one before a reduction."""
        dense = [self._dense(gradient) for gradient in gradients]
        if not self.sums:
            with tf.init_scope():
                self.sums = [
                    tf.Variable(tf.zeros(native(v).shape, native(v).dtype), trainable=False) for v in variables
                ]
        for total, gradient in zip(self.sums, dense, strict=True):
            if gradient is not None:
                total.assign_add(gradient)
        return tf.equal(self.counter.assign_add(1), self.passes)

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError("IndexedSlices with backward_passes_per_step > 1: pass sparse_as_dense=True")
        return tf.convert_to_tensor(gradient)

    def take(self, gradients: Iterable[Any], variables: Iterable[Any]) -> list[Any]:
        """Return the reduced sums of all backward passes, in the places of ``gradients``, and set them to zero."""
        sums = [
            None if gradient is None else total.read_value()
            for gradient, total in zip(gradients, self.sums, strict=True)
        ]
        reduced = self.reduce(sums, variables)
        with tf.control_dependencies([gradient for gradient in reduced if gradient is not None]):
            for total in self.sums:
                total.assign(tf.zeros_like(total))
            self.counter.assign(0)
        return [g if g is None or not self.average_passes else g / self.passes for g in reduced]
