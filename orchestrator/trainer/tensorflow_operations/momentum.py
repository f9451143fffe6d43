"""Update of weights by SGD with momentum and weight decay: one pass over them if possible, with the same bits.

On CPUs one operation does it (docker/tensorflow_operations/momentum.cc). Without it, and on GPUs, TensorFlow's
operations do the same in several passes.
"""

from typing import Any

import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import casts, library


def update(
    variable: Any,
    accumulated: Any,
    gradient: tf.Tensor,
    rate: tf.Tensor,
    momentum: tf.Tensor,
    decay: "tf.Tensor | None",
    nesterov: bool,
) -> None:
    """Let ``accumulated = (accumulated - decay * variable) * momentum - rate * gradient``, and add it to the weights.

    Args:
        variable: Weights, float32.
        accumulated: Their momenta, float32.
        gradient: Their gradient, float32.
        rate: Learning rate, float32 scalar.
        momentum: Share of the momenta that stays, float32 scalar.
        decay: Share of the weights that is subtracted from the momenta, float32 scalar; None for none.
        nesterov: Use Nesterov's rule.
    """
    operations = None if nesterov else library.load()
    pair = {"var": variable.handle, "accum": accumulated.handle}
    if operations:
        decays, share = decay is not None, rate if decay is None else decay
        operations.orchestrator_momentum(
            **pair, rate=rate, decay=share, momentum=momentum, grads=_sources(gradient), decays=decays
        )
        return
    if decay is not None:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=accumulated.handle, alpha=decay, delta=tf.convert_to_tensor(variable)
        )
    tf.raw_ops.ResourceApplyKerasMomentum(**pair, lr=rate, grad=gradient, momentum=momentum, use_nesterov=nesterov)


def _sources(gradient: tf.Tensor) -> list[tf.Tensor]:
    """Return a gradient before its cast from bfloat16, or the two whose mean it is: the operation reads them."""
    if tf.executing_eagerly():
        return [gradient]
    source = gradient.op.inputs[0] if gradient.op.type == "Identity" else gradient
    return casts.sources(source)
