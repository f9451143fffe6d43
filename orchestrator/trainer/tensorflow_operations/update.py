"""Updates of weights with weight decay, in one pass over them by an operation for CPUs.

It is docker/tensorflow_operations/update.cc. Without it, and on GPUs, several operations of TensorFlow do the same.
"""

from typing import Any

import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import casts, library


def momentum(
    variable: Any,
    accumulated: Any,
    gradient: tf.Tensor,
    rate: tf.Tensor,
    share: tf.Tensor,
    decay: "tf.Tensor | None",
    nesterov: bool,
) -> None:
    """Let ``accumulated = (accumulated - decay * variable) * share - rate * gradient``, and add it to the weights.

    Args:
        variable: Weights, float32.
        accumulated: Their momenta, float32.
        gradient: Their gradient, float32.
        rate: Learning rate, float32 scalar.
        share: Of the momenta that stays, float32 scalar.
        decay: Share of the weights that is subtracted from the momenta, float32 scalar; None for none.
        nesterov: Use Nesterov's rule.
    """
    operations = None if nesterov else library.load()
    pair = {"var": variable.handle, "accum": accumulated.handle}
    if operations:
        operations.orchestrator_momentum(**pair, **_inputs(gradient, rate, share, decay))
        return
    if decay is not None:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=accumulated.handle, alpha=decay, delta=tf.convert_to_tensor(variable)
        )
    tf.raw_ops.ResourceApplyKerasMomentum(**pair, lr=rate, grad=gradient, momentum=share, use_nesterov=nesterov)


def rmsprop(
    variable: Any,
    squares: Any,
    gradient: tf.Tensor,
    rate: tf.Tensor,
    share: tf.Tensor,
    decay: "tf.Tensor | None",
    epsilon: float,
) -> None:
    """Average the squares of gradients, and subtract ``rate`` times the gradient divided by their root.

    Args:
        variable: Weights, float32.
        squares: Moving average of the squares, float32.
        gradient: Gradient of the weights, float32.
        rate: Learning rate, float32 scalar.
        share: Of the average that stays, float32 scalar.
        decay: Share of the weights that is added to the gradient, float32 scalar; None for none.
        epsilon: Added to the average under the root.
    """
    pair = {"var": variable.handle, "accum": squares.handle}
    library.load().orchestrator_rms_prop(**pair, **_inputs(gradient, rate, share, decay, epsilon))


def _inputs(
    gradient: tf.Tensor, rate: tf.Tensor, share: tf.Tensor, decay: "tf.Tensor | None", epsilon: float = 0.0
) -> dict[str, Any]:
    numbers = {"rate": rate, "share": share, "epsilon": epsilon, "decay": 0.0 if decay is None else decay}
    return {**numbers, "grads": _sources(gradient), "decays": decay is not None}


def _sources(gradient: tf.Tensor) -> list[tf.Tensor]:
    """Return a gradient before its cast from bfloat16, or the two whose mean it is: the operation reads them."""
    if tf.executing_eagerly():
        return [gradient]
    source = gradient.op.inputs[0] if gradient.op.type == "Identity" else gradient
    return casts.sources(source)
