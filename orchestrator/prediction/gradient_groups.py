"""Which gradients travel together: by engine, from the order in which they are ready."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from orchestrator.prediction.ready_gradients import Gradient
from orchestrator.schema.training import HOROVODS_LARGEST_MESSAGE, OUR_LARGEST_MESSAGE

Engine = Literal["ours", "horovod", "torch-ddp", "parameter-server"]
GROUP, FUSION = OUR_LARGEST_MESSAGE << 20, HOROVODS_LARGEST_MESSAGE << 20  # bytes
# Bytes (PyTorch 2, torch.nn.parallel.DistributedDataParallel and compute_bucket_assignment_by_size in reducer.cpp).
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20


class Message(NamedTuple):
    """Gradients that travel together: bytes in float32, and the share of backpropagation after which all are ready."""

    bytes: float
    ready: float

    def joined(self, gradient: Gradient) -> "Message":
        """Return this message with one more gradient."""
        return Message(self.bytes + gradient.bytes, max(self.ready, gradient.ready))


def largest(engine: Engine, fusion_threshold: int | None) -> int:
    """Return the bytes of the largest message of "ours" or "horovod" for a threshold in MiB, or for its default."""
    if fusion_threshold is None:
        return FUSION if engine == "horovod" else GROUP
    return fusion_threshold << 20


def groups(gradients: Sequence[Gradient], size: float) -> list[Message]:
    """Fill messages of up to ``size`` bytes in the order of readiness; one gradient may be larger."""
    messages = list[Message]()
    for gradient in gradients:
        if not messages or messages[-1].bytes + gradient.bytes > size:
            messages.append(Message(0.0, 0.0))
        messages[-1] = messages[-1].joined(gradient)
    return messages


def buckets(gradients: Sequence[Gradient]) -> list[Message]:
    """Fill DDP's buckets in the order of readiness: a bucket is full once it has its size, or more."""
    messages, size = [Message(0.0, 0.0)], FIRST_BUCKET
    for gradient in gradients:
        if messages[-1].bytes >= size:
            messages.append(Message(0.0, 0.0))
            size = BUCKET
        messages[-1] = messages[-1].joined(gradient)
    return messages


@lru_cache(maxsize=8)  # a forecast asks for the same messages a thousand times
def of_engine(engine: Engine, gradients: tuple[Gradient, ...], group: float = GROUP) -> tuple[Message, ...]:
    """Return the messages of an engine that decides on them before the first step.

    Args:
        engine: For "horovod" each gradient is one: Horovod fuses what is ready when a cycle begins.
        gradients: In the order in which they are ready.
        group: Largest message of the engine "ours", in bytes.

    Returns:
        Messages in the order in which they travel.
    """
    if engine == "ours":
        return tuple(groups(gradients, group))
    if engine == "torch-ddp":
        return tuple(buckets(gradients))
    return tuple(Message(*gradient) for gradient in gradients)
