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
``prepared.json``   rank 0              :class:`Prepared`
``staged.json``     rank 0              :class:`Staged`
==================  ==================  ==============================================

``config.json`` of a run that prepares or stages data is a :class:`PrepareConfig` or a :class:`StageConfig`. Beside
TFRecord shards that were prepared lies ``manifest.json``, a :class:`Manifest`, and for each a :class:`Shard`.

:class:`NodeFacts` crosses on the standard output of ``orchestrator.trainer.health``.
"""

import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

State = Literal["finished", "failed", "stopped"]
Precision = Literal["float32", "bfloat16", "float16"]


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
    """Everything a training run depends on, resolved from recipe, cluster.yaml and flags."""

    run: str
    model: str
    dataset: str
    data: str | None
    image_size: int
    channels: int
    classes: int
    synthetic_images: int = 0
    augment: bool
    epochs: int
    steps: int | None = None
    max_time: float | None = None
    batch_size: int
    learning_rate: float
    momentum: float
    weight_decay: float
    label_smoothing: float = 0.0
    warmup_epochs: float
    schedule: Literal["step", "cosine"]
    milestones: list[float] = []
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
    """results.json, rewritten after every epoch; ``ended`` says why training stopped, None while it goes on.

    ``data_path`` is the directory that the data was read from: on the shared storage, or on every node's own disk.
    """

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
    data_path: str | None = None


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


class PrepareConfig(_File):
    """What to make TFRecord shards of, and where; ``shards`` of a split ("train", "val") where none are made yet.

    Where ``source`` holds shards itself, ``target`` is the same directory: they are read through and described.
    """

    source: str
    target: str
    shards: dict[str, int]
    skip_unreadable: bool
    threads: int


class Shard(_File):
    """A TFRecord file that is whole: ``lengths`` are the bytes of each record's content, in order.

    ``labels`` are its least and its greatest; ``unreadable`` are the images that were left out.
    """

    name: str
    bytes: int
    sha256: str
    lengths: list[int]
    labels: tuple[int, int] | None
    unreadable: list[str] = []


class Manifest(_File):
    """All shards of a data set, by split. Written last: where it is, they are whole.

    A label less ``label_base`` is the number of the class, from 0 on.
    """

    version: Literal[1] = 1
    label_base: int
    shards: dict[str, list[Shard]]


class Prepared(_File):
    """What ``orchestrator data prepare`` gave: images by split, and of how many shards ``made`` were made now."""

    directory: str
    images: dict[str, int]
    shards: int
    made: int
    bytes: int
    unreadable: list[str]
    seconds: float


class StageConfig(_File):
    """Which directories of prepared shards to copy to every node's own disk.

    ``head_apart``: the shared storage is a disk of rank 0's node, which therefore copies for itself.
    """

    sources: list[str]
    head_apart: bool
    threads: int


class Staged(_File):
    """What ``orchestrator data stage`` gave: rank r, on ``hosts[r]``, wrote ``copied[r]`` bytes.

    Of these it ``read[r]`` from the shared storage itself; the others gave it the rest.
    """

    directories: list[str]
    hosts: list[str]
    shards: int
    bytes: int
    read: list[int]
    copied: list[int]
    seconds: float
