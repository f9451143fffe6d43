"""Gradients, averaged over all ranks, how long a rank waited for them, and what ranks agree on meanwhile.

Gradients travel in groups that are the same in every step. What Horovod fuses on its own depends on the moment, and the
place of a number in the buffer on the order in which ranks add to it (a ring starts at another rank for each part): on
three ranks and more, the same run would then end with other last bits. Groups of this size cost no more than that: few
messages, the first of them while other gradients are still being computed.
"""

import os
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Communication, TrainConfig
from orchestrator.trainer import exchange

GROUP_BYTES = 32 << 20  # of float32 gradients, where no fusion threshold is given; one gradient may be larger
DEFAULTS = {"HOROVOD_CYCLE_TIME": 1.0, "HOROVOD_FUSION_THRESHOLD": 128 << 20}  # Horovod 0.28.1: operations.cc


def begin() -> None:
    """Start Horovod, so that it fuses no two groups (and leaves alone what is in none)."""
    os.environ.setdefault("HOROVOD_DISABLE_GROUP_FUSION", "1")
    hvd.init()


def averages(gradients: list[tf.Tensor], config: TrainConfig) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The means over all ranks, and the seconds waited for them: a float64 in the host's memory, 0 on one rank.

    For compiled functions. Each group is reduced as soon as it is there, while others are still being computed: such
    communication costs no time of its own. What is measured is what is left: from the moment at which this rank has
    all its gradients, to the moment at which it has everybody's. That holds the wait for ranks that are slower.

    The host waits for nothing that it does not wait for anyway: the function ends after Horovod's operations, and
    these end on the host when the network has done its part (HOROVOD_ENABLE_ASYNC_COMPLETION is off by default).
    """
    if hvd.size() == 1:
        with tf.device("CPU:0"):
            return gradients, tf.zeros([], tf.float64)
    own = as_computed(gradients, config)
    ready = _computed(own)
    reduced = list(gradients)
    for number, group in enumerate(groups([gradient.shape for gradient in gradients])):
        averaged = means([own[index] for index in group], config, f"gradients.{number}")
        for index, mean in zip(group, averaged, strict=True):
            reduced[index] = mean
    with tf.control_dependencies(reduced):
        return reduced, _clock(_seconds_since, ready)


def as_computed(gradients: list[tf.Tensor], config: TrainConfig) -> list[tf.Tensor]:
    """As :func:`means` takes them best: not widened, where they travel in the 16 bits that they were computed in."""
    narrowed = route(config) == "exchange"
    return [exchange.narrow(gradient, config.compression) for gradient in gradients] if narrowed else gradients


def groups(shapes: "list[tf.TensorShape]") -> list[list[int]]:
    """Which gradients travel together, by number: the last first, for backpropagation computes these first."""
    found: list[list[int]] = []
    limit, room = int(os.environ.get("HOROVOD_FUSION_THRESHOLD", GROUP_BYTES)), 0
    for number in reversed(range(len(shapes))):
        needs = 4 * shapes[number].num_elements()
        if not found or needs > room:
            found.append([])
            room = limit
        found[-1].append(number)
        room -= needs
    return found


def means(group: list[tf.Tensor], config: TrainConfig, name: str) -> list[tf.Tensor]:
    """The means over all ranks of gradients that travel together, as ``config`` has them travel."""
    predivide = config.gradient_predivide_factor
    if route(config) == "exchange":
        return exchange.means(group, config.compression, predivide, name)
    compression = hvd.Compression.fp16 if config.compression == "fp16" else hvd.Compression.none
    if config.adasum:  # one by one: in Horovod 0.28.1 hvd.grouped_allreduce fails with it
        return [
            hvd.allreduce(one, op=hvd.Adasum, compression=compression, name=f"{name}.{number}")
            for number, one in enumerate(group)
        ]
    scales = {"prescale_factor": 1.0 / predivide, "postscale_factor": predivide}
    return hvd.grouped_allreduce(group, op=hvd.Average, compression=compression, name=name, **scales)


def route(config: TrainConfig) -> str:
    """How gradients travel, as in :class:`Communication`."""
    if hvd.size() == 1:
        return "none"
    if config.adasum:
        return "adasum"
    by_nccl = config.compression == "fp16" and on_gpu()
    return "allreduce" if config.compression == "none" or by_nccl else "exchange"


def on_gpu() -> bool:
    """Whether NCCL carries gradients from GPU to GPU."""
    return bool(hvd.nccl_built()) and bool(tf.config.get_visible_devices("GPU"))


def scale(config: TrainConfig) -> int:
    """How many times a batch of one rank goes into the learning rate: that of its whole step, for a mean of gradients.

    Adasum adds up what ranks disagree on already, so their number does not count, but for those of a node with GPUs,
    of which Horovod takes the mean (its docs/adasum_user_guide.rst, "Key Takeaways", and examples/pytorch).
    """
    if not config.adasum:
        return hvd.size() * config.backward_passes_per_step
    return (hvd.local_size() if on_gpu() else 1) * config.backward_passes_per_step


def described(config: TrainConfig, shapes: "list[tf.TensorShape]") -> Communication:
    """What gradients travel by in this run, as Horovod is set in this rank's environment."""
    found = {key: float(os.environ.get(key) or otherwise) for key, otherwise in DEFAULTS.items()}
    return Communication(
        controller=os.environ.get("HOROVOD_CONTROLLER", "mpi" if hvd.mpi_enabled() else "gloo"),
        transport="nccl" if on_gpu() else "mpi" if hvd.mpi_enabled() else "gloo",
        cycle_time=found["HOROVOD_CYCLE_TIME"],
        fusion_threshold=found["HOROVOD_FUSION_THRESHOLD"] / (1 << 20),
        autotune=os.environ.get("HOROVOD_AUTOTUNE") == "1",
        route=route(config),
        groups=len(groups(shapes)) if hvd.size() > 1 else 0,
        bytes_per_step=size(shapes, config),
    )


def total(numbers: tf.Tensor) -> tf.Tensor:
    """The sum over all ranks of int32 ``numbers``, in the host's memory. Every rank calls it, in a step or between two.

    In a step it costs no time: it needs nothing of what is computed, so it is over before the first gradient is there.
    """
    with tf.device("CPU:0"):
        return hvd.allreduce(numbers, op=hvd.Sum, name="total") if hvd.size() > 1 else tf.identity(numbers)


def slowest(mine: float) -> float:
    """The largest number that any rank has. Every rank calls it, between two steps."""
    return max(hvd.allgather_object(mine))


def _computed(tensors: list[tf.Tensor]) -> tf.Tensor:
    """The time at which all are computed, and not merely begun, as a GPU's are when TensorFlow goes on.

    A number that is taken from one of them after all were begun comes to the host when the GPU is through with them:
    its stream works in order.
    """
    with tf.control_dependencies(tensors):
        number = tf.reshape(tensors[-1], [-1])[0]
    return _clock(_now, number)


def _clock(look: "object", after: tf.Tensor) -> tf.Tensor:
    """A look at the host's clock, in Python: tf.timestamp() refuses where operations are to be deterministic."""
    seconds = tf.numpy_function(look, [after], tf.float64)
    seconds.set_shape([])
    return seconds


def _now(_: np.ndarray) -> np.float64:
    return np.float64(time.perf_counter())


def _seconds_since(earlier: np.ndarray) -> np.float64:
    return np.float64(time.perf_counter() - earlier)


def size(shapes: "list[tf.TensorShape]", config: TrainConfig) -> int:
    """Bytes of gradients that one step reduces, for float32 variables of these shapes; 0 on one rank."""
    elements = sum(shape.num_elements() for shape in shapes)
    return 0 if hvd.size() == 1 else elements * (4 if config.compression == "none" else 2)
