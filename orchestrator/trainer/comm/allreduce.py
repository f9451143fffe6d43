"""Mean of all ranks' gradients, the time that a rank waited for them, and small sums on which ranks agree meanwhile.

Gradients travel in groups that are the same in every step. Horovod's own fusion depends on timing, and the position of
a number in the buffer decides the order in which ranks add to it (a ring starts at another rank for each part): on
three ranks and more, the same run would then end with other last bits. Groups of this size cost no more than fusion:
few messages, the first of them while other gradients are still being computed.
"""

import os

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Communication, TrainConfig
from orchestrator.schema.training import HOROVODS_LARGEST_MESSAGE, OUR_LARGEST_MESSAGE
from orchestrator.trainer.comm import compressed
from orchestrator.trainer.tensorflow_operations import casts, clock

GROUP_BYTES = OUR_LARGEST_MESSAGE << 20  # of float32 gradients, without a fusion threshold; one gradient may be larger
# Horovod 0.28.1: operations.cc
DEFAULTS = {"HOROVOD_CYCLE_TIME": 1.0, "HOROVOD_FUSION_THRESHOLD": HOROVODS_LARGEST_MESSAGE << 20}
OWN_ROUTES = ("exchange", "hierarchical")  # those of compressed.means
sources = casts.sources  # of a mean: what an update of the weights reads instead


def begin(adasum: bool = False) -> None:
    """Start Horovod so that it sends each group at once, and fuses none with another one or with other tensors.

    Adasum combines gradients one by one: Horovod sends those together that a cycle finds.
    """
    os.environ.setdefault("HOROVOD_DISABLE_GROUP_FUSION", "1")
    if not adasum:  # docker/horovod/0012-cycle-when-a-tensor-is-added.patch
        os.environ.setdefault("HOROVOD_CYCLE_ON_ENQUEUE", "1")
    hvd.init()


def allreduce_mean(gradients: list[tf.Tensor], config: TrainConfig) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return the means over all ranks, and times (``clock.read``) for ``step_times.exchange``: float64 (2, groups).

    For compiled functions. Each group is reduced as soon as it is computed, while others are still being computed: such
    communication costs no extra time. The times of a group are when this rank has its own gradients, and when it has
    their means. On one rank there are none, float64 (0).

    The measurement adds no waiting on the host: the function ends after Horovod's operations, and these end on the host
    when the network has done its part (HOROVOD_ENABLE_ASYNC_COMPLETION is off by default).
    """
    if hvd.size() == 1:
        return gradients, tf.zeros([0], tf.float64)
    local_gradients = before_upcast(gradients, config)
    reduced, ready, received = list(gradients), list[tf.Tensor](), list[tf.Tensor]()
    for number, group in enumerate(groups([gradient.shape for gradient in gradients])):
        own = [local_gradients[index] for index in group]
        averaged = means(own, config, f"gradients.{number}")
        ready.append(clock.read(own))
        received.append(clock.read([part for mean in averaged for part in sources(mean)]))
        for index, mean in zip(group, averaged, strict=True):
            reduced[index] = mean
    with tf.device("CPU:0"):
        return reduced, tf.stack([ready, received])


def before_upcast(gradients: list[tf.Tensor], config: TrainConfig) -> list[tf.Tensor]:
    """Return gradients as :func:`means` takes them best: not widened if computed in the 16 bits they travel in.

    The bits that travel are the same, without being widened and rounded again. For compiled functions.
    """
    if route(config) not in OWN_ROUTES:
        return gradients
    return [casts.undo(gradient, compressed.DTYPES[config.compression]) for gradient in gradients]


def groups(shapes: "list[tf.TensorShape]") -> list[list[int]]:
    """Group gradients by number into messages."""
    limit = int(os.environ.get("HOROVOD_FUSION_THRESHOLD", GROUP_BYTES))
    return compressed.pack([4 * shape.num_elements() for shape in shapes], limit)


def means(group: list[tf.Tensor], config: TrainConfig, name: str) -> list[tf.Tensor]:
    """Compute the means over all ranks of gradients that travel together.

    Args:
        group: This rank's gradients.
        config: Sets compression, Adasum and predivision.
        name: Name of the operation, the same on every rank.

    Returns:
        The means, in the order of ``group``.
    """
    if route(config) in OWN_ROUTES:
        return compressed.means(group, config, name)
    predivide = config.gradient_predivide_factor
    compression = hvd.Compression.fp16 if config.compression == "fp16" else hvd.Compression.none
    if config.adasum:  # one by one: hvd.grouped_allreduce of Horovod 0.28.1 fails with it
        return [
            hvd.allreduce(gradient, op=hvd.Adasum, compression=compression, name=f"{name}.{number}")
            for number, gradient in enumerate(group)
        ]
    scales = {"prescale_factor": 1.0 / predivide, "postscale_factor": predivide}
    return hvd.grouped_allreduce(group, op=hvd.Average, compression=compression, name=name, **scales)


def route(config: TrainConfig) -> str:
    """Return how gradients travel, as in :class:`Communication`."""
    if hvd.size() == 1:
        return "none"
    if config.adasum:
        return "adasum"
    if config.compression == "none":
        return "exchange" if hvd.size() == 2 and not on_gpu() else "allreduce"
    if config.compression == "fp16" and on_gpu():
        return "allreduce"
    return "hierarchical" if config.hierarchical else "exchange"


def on_gpu() -> bool:
    """Check that NCCL carries gradients from GPU to GPU."""
    return bool(hvd.nccl_built()) and bool(tf.config.get_visible_devices("GPU"))


def scale(config: TrainConfig) -> int:
    """Return the factor on one rank's batch for the learning rate: all batches of a step, for a mean of gradients.

    Adasum already adds up gradients that differ between ranks, so the number of ranks does not count, except for the
    ranks of a node with GPUs, whose mean Horovod takes (its docs/adasum_user_guide.rst, "Key Takeaways", and
    examples/pytorch).
    """
    if not config.adasum:
        return hvd.size() * config.backward_passes_per_step
    return (hvd.local_size() if on_gpu() else 1) * config.backward_passes_per_step


def describe(config: TrainConfig, shapes: "list[tf.TensorShape]") -> Communication:
    """Describe how gradients travel in this run, from Horovod's settings in this rank's environment."""
    settings = {key: float(os.environ.get(key) or default) for key, default in DEFAULTS.items()}
    return Communication(
        controller=os.environ.get("HOROVOD_CONTROLLER", "mpi" if hvd.mpi_enabled() else "gloo"),
        transport="nccl" if on_gpu() else "mpi" if hvd.mpi_enabled() else "gloo",
        cycle_time=settings["HOROVOD_CYCLE_TIME"],
        fusion_threshold=settings["HOROVOD_FUSION_THRESHOLD"] / (1 << 20),
        autotune=os.environ.get("HOROVOD_AUTOTUNE") == "1",
        route=route(config),
        groups=len(groups(shapes)) if hvd.size() > 1 else 0,
        bytes_per_step=size(shapes, config),
    )


def allreduce_sum(numbers: tf.Tensor) -> tf.Tensor:
    """Sum int32 ``numbers`` over all ranks, in the host's memory. A collective call, in a step or between two.

    In a step it costs no time: it depends on nothing that is computed, so it ends before the first gradient is ready.
    """
    with tf.device("CPU:0"):
        return hvd.allreduce(numbers, op=hvd.Sum, name="total") if hvd.size() > 1 else tf.identity(numbers)


def size(shapes: "list[tf.TensorShape]", config: TrainConfig) -> int:
    """Return the bytes of gradients that one step reduces, for float32 variables of these shapes; 0 on one rank."""
    elements = sum(shape.num_elements() for shape in shapes)
    return 0 if hvd.size() == 1 else elements * (4 if config.compression == "none" else 2)
