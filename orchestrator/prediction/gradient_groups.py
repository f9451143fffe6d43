"""Which gradients travel together: by engine, from the order in which they are ready."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from orchestrator.prediction.ready_gradients import Gradient

Engine = Literal["ours", "horovod", "torch-ddp", "parameter-server"]
GROUP = 32 << 20  # bytes: trainer/comm/allreduce.GROUP_BYTES
FUSION = 64 << 20  # bytes: Horovod's default up to 0.21; a cycle's gradients seldom fill it
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20  # bytes (PyTorch 2, torch.nn.parallel.DistributedDataParallel)


class Message(NamedTuple):
    """Gradients that travel together: bytes in float32, and the share of backpropagation after which all are ready."""

    bytes: float
    ready: float


def largest(fusion_threshold: int | None) -> int:
    """Return the bytes of the largest message of the engine "ours" for a threshold in MiB."""
    return GROUP if fusion_threshold is None else fusion_threshold << 20


def fixed(gradients: Sequence[Gradient], first: float, size: float) -> list[Message]:
    """Fill messages of up to ``size`` bytes, the first one of up to ``first``, in the order of readiness."""
    messages, room = list[Message](), 0.0
    for gradient in gradients:
        if not messages or gradient.bytes > room:
            messages.append(Message(0.0, 0.0))
            room = first if len(messages) == 1 else size
        room -= gradient.bytes
        messages[-1] = Message(messages[-1].bytes + gradient.bytes, max(messages[-1].ready, gradient.ready))
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
        return tuple(fixed(gradients, group, group))
    if engine == "torch-ddp":
        return tuple(fixed(gradients, FIRST_BUCKET, BUCKET))
    return tuple(Message(*gradient) for gradient in gradients)
