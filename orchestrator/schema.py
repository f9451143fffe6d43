"""The files that cross between the control side and the worker side, each with one shape on both sides.

==================  ==================  ==============================================
file in a run's     written by          shape
directory
==================  ==================  ==============================================
``config.json``     control side        :class:`TrainConfig`
``command.json``    control side        list of strings: the launcher and its arguments
``program.json``    control side        list of strings: what every rank executes
``ranks/N.json``    rank N's shim       :class:`RankRecord`
``status.json``     the supervisor      :class:`RunStatus`
``results.json``    rank 0              :class:`Results`
``hello.json``      rank 0              :class:`Hello`
==================  ==================  ==============================================

:class:`NodeFacts` crosses on the standard output of ``orchestrator.trainer.health``.
"""

import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

State = Literal["finished", "failed", "stopped"]
Precision = Literal["float32", "bfloat16", "float16"]
Optimizer = Literal["sgd", "rmsprop", "adam"]
Schedule = Literal["step", "cosine", "exponential", "polynomial"]


class _File(BaseModel):
    """Strict about what it must hold, tolerant of keys that a newer version adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def write(self, path: Path) -> None:
        """Replace ``path`` atomically: a reader sees the old file or the new one, never half of one."""
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
            temporary.write(self.model_dump_json(indent=2) + "\n")
        Path(temporary.name).chmod(0o644)
        Path(temporary.name).replace(path)


class TrainConfig(_File):
    """Everything a training run depends on, resolved from recipe, cluster.yaml and flags.

    ``augment`` moves small images by up to ``shift`` pixels and mirrors half of them where they may ``flip``.
    ``momentum`` and ``rho`` are Adam's beta 1 and beta 2; ``rho`` and ``epsilon`` are RMSProp's too. Gradients of all
    weights together are scaled to a norm of ``clip_norm`` where it is larger. ``milestones`` belong to the schedule
    "step", ``decay`` and ``decay_epochs`` to "exponential", ``power`` to "polynomial".
    """

    run: str
    model: str
    dataset: str
    data: str | None
    image_size: int
    channels: int
    classes: int
    synthetic_images: int = 0
    augment: bool
    shift: int = 4
    flip: bool = True
    epochs: int
    steps: int | None = None
    max_time: float | None = None
    batch_size: int
    optimizer: Optimizer = "sgd"
    learning_rate: float
    momentum: float
    nesterov: bool = False
    rho: float = 0.9
    epsilon: float = 1e-7
    clip_norm: float | None = None
    weight_decay: float
    label_smoothing: float = 0.0
    warmup_epochs: float
    schedule: Schedule
    milestones: list[float] = []
    decay: float = 0.94
    decay_epochs: float = 2.0
    power: float = 0.5
    seed: int
    precision: Precision
    fp16_allreduce: bool
    threads: int
    restarts: int = 0


class Scores(_File):
    """Means over every sample of a split, all ranks together. ``loss`` in nats, ``top1`` and ``top5`` from 0 to 1."""

    loss: float
    top1: float
    top5: float
    images: int


class Epoch(_File):
    """What one epoch gave. ``seconds`` covers training alone; images per second leave out the step that traces.

    ``steps`` counts from the start of the run; ``peak_memory_per_rank`` is resident memory in bytes, so far.
    ``input_seconds``, ``compute_seconds`` and ``communication_seconds`` are rank r's means per step and add up to it;
    they are empty where the epoch had no step but the one that traces, and in files of older versions.
    """

    epoch: int
    steps: int
    learning_rate: float
    train: Scores
    test: Scores
    images_per_second: float
    images_per_second_per_rank: list[float]
    peak_memory_per_rank: list[int]
    seconds: float
    test_seconds: float
    input_seconds: list[float] = []
    compute_seconds: list[float] = []
    communication_seconds: list[float] = []
    weights_sha256: str


class World(_File):
    """Who trained: ``hosts[r]`` is the host name of rank r."""

    size: int
    hosts: list[str]


class Results(_File):
    """results.json, rewritten after every epoch; ``ended`` says why training stopped, None while it goes on."""

    version: Literal[1] = 1
    run: str
    config: TrainConfig
    versions: dict[str, str]
    world: World
    parameters: int
    effective_batch_size: int
    peak_learning_rate: float
    epochs: list[Epoch]
    ended: Literal["epochs", "steps", "max-time"] | None = None


class RankRecord(_File):
    """The life of one rank, kept by its shim. Times in seconds since the epoch, by the clock of its host."""

    rank: int
    host: str
    pid: int
    started: float
    ended: float | None = None
    exit_code: int | None = None
    terminated: bool = False


class Failure(_File):
    """The first thing that went wrong: a rank (with its last lines) or a host that no longer answers."""

    reason: Literal["rank", "host", "launcher"]
    host: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    lines: list[str] = []


class RunStatus(_File):
    """How a run ended. ``left`` holds the hosts that could not be swept, because they did not answer."""

    state: State
    exit_code: int
    started: float
    ended: float
    failure: Failure | None = None
    left: list[str] = []


class NodeFacts(_File):
    """What a node says of itself (``orchestrator.trainer.health``). Sizes in bytes."""

    hostname: str
    resolves: bool
    interface: str | None
    interfaces: list[str]
    digest: str | None
    shared_writable: bool
    shared_free: int
    memory: int
    memory_available: int
    load: float
    runs: list[str]
    unreachable: dict[str, str]


class HelloRank(_File):
    rank: int
    host: str
    local_rank: int
    allreduce_sum: float


class HelloSize(_File):
    """One message size: seconds per allreduce (median), and bytes/s per rank pair of links as nccl-tests defines it."""

    bytes: int
    latency_seconds: float
    bus_bandwidth: float


class Hello(_File):
    """What ``orchestrator check`` measured: every rank, the sum that proves the allreduce, latency per size."""

    size: int
    expected_sum: float
    ranks: list[HelloRank]
    sizes: list[HelloSize]
