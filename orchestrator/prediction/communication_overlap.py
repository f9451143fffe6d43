"""Timeline of a step on several ranks: the recursion of MG-WFBP (Shi et al. 2019), with Horovod's cycle and load."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from orchestrator.prediction import gradient_groups
from orchestrator.prediction.allreduce_time import ROUND, Topology
from orchestrator.prediction.gradient_groups import Engine, Message
from orchestrator.prediction.single_rank import Node
from orchestrator.schema.training import MIN_SPEEDUP

Compression = Literal["none", "bf16", "fp16", "auto"]


@dataclass(frozen=True)
class Options:
    """Exchange of gradients in a step.

    Attributes:
        engine: Decides which gradients travel together.
        compression: Type in which they travel; "auto" is 16 bits where messages are faster in them.
        passes: Backward passes per step.
        group: Largest message of the engines "ours" and "horovod", bytes; None for the default.
        servers: Parameter servers of the engine "parameter-server".
        cycle: Seconds between two rounds of Horovod's background thread; only the engine "horovod" waits for them.
    """

    engine: Engine = "ours"
    compression: Compression = "none"
    passes: int = 1
    group: float | None = None
    servers: int = 1
    cycle: float = 5e-3

    @property
    def largest(self) -> float:
        """Return the bytes of the largest message."""
        return gradient_groups.largest(self.engine, None) if self.group is None else self.group


class Step(NamedTuple):
    """Seconds of a step, and how many of them only communicate."""

    seconds: float
    exposed: float


def predict(node: Node, topology: Topology, options: Options) -> Step:
    """Return the step of ``topology.ranks`` ranks, each computing as ``node`` does."""
    alone = node.seconds + (options.passes - 1) * (node.forward + node.backward)
    if topology.ranks == 1:
        return Step(alone, 0.0)
    if options.engine == "parameter-server":
        return _by_servers(node, alone, topology, options)
    late, exposed = _timeline(node, topology, options)
    return Step(alone + late + exposed + node.waiting(topology.ranks), exposed)


def possible(compression: Compression, precision: str, engine: Engine = "ours", adasum: bool = False) -> Compression:
    """Return the ``compression`` of layers that compute in ``precision``: "auto" takes no fewer bits than they do.

    Only our trainer measures what 16 bits gain, and not with Adasum: otherwise "auto" is "none".
    """
    open_choice = engine == "ours" and precision == "bfloat16" and not adasum
    return "none" if compression == "auto" and not open_choice else compression


def chosen(node: Node, topology: Topology, options: Options) -> Options:
    """Replace the compression "auto" in ``options``, as the ranks of ``topology`` choose it by measurement.

    They measure a message of all gradients, of 32 MiB at most, while nothing computes.
    """
    if options.compression != "auto":
        return options
    whole, half = replace(options, compression="none"), replace(options, compression="bf16")
    size = min(node.bytes, gradient_groups.GROUP)
    in_32_bits, in_16_bits = (
        _cost(size, _as_exchanged(topology, each, node.cores), each, node.cores)[0] for each in (whole, half)
    )
    return half if topology.ranks > 1 and in_32_bits >= MIN_SPEEDUP * in_16_bits else whole


def _timeline(node: Node, topology: Topology, options: Options) -> tuple[float, float]:
    """Return the seconds by which computing ends later than alone, and those from its end to the last message's."""
    topology = _as_exchanged(topology, options, node.cores)
    begin = node.forward + (options.passes - 1) * (node.forward + node.backward)
    computed, late, end = begin + node.backward, 0.0, 0.0
    cycle = options.cycle if options.engine == "horovod" else 0.0
    queue = deque(_messages(node, options))
    while queue:
        message = queue.popleft()
        start = max(begin + node.backward * message.ready + late + cycle / 2, end)
        if options.engine == "horovod":
            message = _fused(message, queue, options.largest, (start - begin - late) / node.backward)
        seconds, load = _cost(message.bytes, topology, options, node.cores)
        remaining = computed + late - start
        if remaining > 0:  # computing continues, slower by the cores that communication takes
            late += min(load, remaining * load / max(seconds - load, 1e-12))
        end = start + seconds
    return late, max(0.0, end - computed - late)


def _messages(node: Node, options: Options) -> Sequence[Message]:
    """Return the messages of a step; the trainer adds up several passes before any gradient is ready."""
    messages = gradient_groups.of_engine(options.engine, node.gradients, options.largest)
    if options.engine == "ours" and options.passes > 1:
        return [Message(message.bytes, 1.0) for message in messages]
    return messages


def _fused(message: Message, queue: deque[Message], most: float, ready: float) -> Message:
    """Join ``message`` and those of ``queue`` that are ready at this share of backpropagation, up to ``most`` bytes."""
    while queue and queue[0].ready <= ready and message.bytes + queue[0].bytes <= most:
        message = Message(message.bytes + queue.popleft().bytes, message.ready)
    return message


def _cost(size: float, topology: Topology, options: Options, cores: float | None) -> tuple[float, float]:
    """Return the seconds of a message of ``size`` bytes in float32, and the seconds that it takes from computing."""
    whole = options.compression == "none"
    seconds, load = topology.message(size if whole else size / 2, cores)
    if cores is None:
        return seconds, load
    rounding = 0.0 if whole else ROUND * size / cores
    seconds += _latency(options, topology.ranks) * topology.seconds(0)
    return seconds + rounding, min(load, seconds) + rounding


def _as_exchanged(topology: Topology, options: Options, cores: float | None) -> Topology:
    """Decide on means within nodes first, as the trainer's ranks do in 16 bits; float16 of GPUs travels by NCCL."""
    by_nccl = cores is None and options.compression == "fp16"
    if topology.hierarchical is not None or options.engine != "ours" or options.compression == "none" or by_nccl:
        return topology
    flat, near = (replace(topology, hierarchical=value) for value in (False, True))
    faster = flat.seconds(gradient_groups.GROUP / 2) >= MIN_SPEEDUP * near.seconds(gradient_groups.GROUP / 2)
    return near if faster else flat


def _latency(options: Options, ranks: int) -> float:
    """Return the latency that a message between CPUs has in addition to a ring's, as a share of that.

    The trainer's two ranks send each other everything in one step; a ring has two. More ranks use an alltoall and an
    allgather in 16 bits, which wait half as long again.
    """
    if options.engine != "ours":
        return 0.0
    return -0.5 if ranks == 2 else 0.5 * (options.compression != "none")


def _by_servers(node: Node, alone: float, topology: Topology, options: Options) -> Step:
    """Return the step of a worker that waits for no other: it pulls and pushes all weights, and so do the others."""
    size = node.bytes / (1 if options.compression == "none" else 2)
    link = topology.outer
    transfer = 2 * (link.alpha + size * link.beta)
    busy = topology.ranks * size * link.beta / options.servers  # a server sends and receives at the same time
    seconds = max(alone + transfer, busy)
    return Step(seconds, seconds - alone)
