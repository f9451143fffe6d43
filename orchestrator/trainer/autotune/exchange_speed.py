"""Speed of one exchange of gradients beside another, measured between these ranks."""

import time
from collections.abc import Callable

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.comm import allreduce

PIECE = 1 << 20  # bytes of a gradient in float32; a group of these is measured
ROUNDS, LIMIT = 6, 2.0  # trials of each kind, and the seconds after which no more begin
Exchange = Callable[..., tf.Tensor]


def measure_gain(before: TrainConfig, after: TrainConfig, size: int) -> float:
    """Measure the speedup of an exchange over another on the slowest rank. A collective call.

    Args:
        before: Configuration of the exchange that counts as 1.
        after: Configuration of the other exchange.
        size: Bytes of a group of gradients in float32.

    Returns:
        The speedup, the same on every rank.
    """
    exchanges = [_exchange(before, "link.before"), _exchange(after, "link.after")]
    piece = min(PIECE, size)
    gradients = [tf.ones([piece // 4], tf.bfloat16)] * (size // piece)
    _run_trial(exchanges, gradients)  # traces, and opens connections
    trials: list[list[float]] = []
    while len(trials) < ROUNDS and sum(map(sum, trials)) <= LIMIT:
        trials.append(_run_trial(exchanges, gradients))
    slow, fast = map(min, zip(*trials, strict=True))  # the minimum excludes background load
    return slow / fast


def _run_trial(exchanges: list[Exchange], gradients: list[tf.Tensor]) -> list[float]:
    """Return the seconds of each exchange on the slowest rank."""
    seconds = []
    for exchange in exchanges:
        started = time.perf_counter()
        exchange(*gradients).numpy()
        seconds.append(max(hvd.allgather_object(time.perf_counter() - started)))
    return seconds


def _exchange(config: TrainConfig, name: str) -> Exchange:
    """Compile an exchange as in a step, of gradients computed in bfloat16 and widened for the variables."""

    @tf.function(autograph=False)
    def exchange(*gradients: tf.Tensor) -> tf.Tensor:
        widened = [tf.cast(gradient, tf.float32) for gradient in gradients]
        means = allreduce.means(allreduce.before_upcast(widened, config), config, name)
        return tf.add_n([tf.cast(part[0], tf.float32) for mean in means for part in allreduce.sources(mean)])

    return exchange
