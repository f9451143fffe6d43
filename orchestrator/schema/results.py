"""What a training run gives, and what another can go on from."""

from typing import Literal

from pydantic import Field

from orchestrator.schema.file import File
from orchestrator.schema.names import FileName
from orchestrator.schema.training import Compression, Precision, TrainConfig


class Scores(File):
    """Means over every sample of a split, all ranks together. ``loss`` in nats, ``top1`` and ``top5`` from 0 to 1."""

    loss: float
    top1: float
    top5: float
    images: int


class Trained(File):
    """What an epoch's training gave. ``seconds`` covers it alone; images per second leave out the step that traces.

    ``steps`` counts from the start of the run; ``peak_memory_per_rank`` is resident memory in bytes, so far.
    ``input_seconds``, ``compute_seconds`` and ``communication_seconds`` are rank r's means per step and add up to it;
    they are empty where the epoch had no step but the one that traces, and in files of older versions. Of an epoch
    within which a run was stopped, seconds and images per second are of both runs, the rest is of the second.
    """

    epoch: int
    steps: int
    learning_rate: float
    train: Scores
    images_per_second: float
    images_per_second_per_rank: list[float]
    peak_memory_per_rank: list[int]
    seconds: float
    input_seconds: list[float] = Field([])
    compute_seconds: list[float] = Field([])
    communication_seconds: list[float] = Field([])


class Epoch(Trained):
    """What a whole epoch gave: its training, its evaluation, and the weights that every rank then had."""

    test: Scores
    test_seconds: float
    weights_sha256: str


class Unfinished(File):
    """The split of an epoch's steps that was not evaluated any more: rank r's means, as in :class:`Trained`."""

    steps: int
    input_seconds: list[float]
    compute_seconds: list[float]
    communication_seconds: list[float]


class World(File):
    """Who trained: ``hosts[r]`` is the host name of rank r."""

    size: int
    hosts: list[str]


class Communication(File):
    """What gradients travelled by, as Horovod was really set. ``cycle_time`` in ms, ``fusion_threshold`` in MiB.

    Groups are as large as the threshold where one was given, else smaller than Horovod's own (``trainer/reduction``).
    With ``autotune`` these two are what it began with, and ``autotune.csv`` in the run's directory says what it tried.
    ``route``: "allreduce" is Horovod's, of ``groups`` of gradients; "exchange" is an alltoall, sums in float32, and an
    allgather; "none" stands for one rank. ``bytes_per_step`` are those of one rank's gradients.
    """

    controller: str
    transport: Literal["gloo", "mpi", "nccl"]
    cycle_time: float
    fusion_threshold: float
    autotune: bool
    route: Literal["none", "allreduce", "exchange", "adasum"]
    groups: int
    bytes_per_step: int


class Results(File):
    """results.json, rewritten after every epoch; ``ended`` says why training stopped, None while it goes on.

    ``resumed_from`` is the run that this one continues; ``epochs`` begin with those of that one.
    ``data_path`` is the directory that the data was read from: on the shared storage, or on every node's own disk.
    Without ``communication`` it is a file of an older version.
    ``damaged`` names the samples that could not be read, and ``skipped_steps`` counts the steps that were not applied,
    both since this run began: what a run that is continued met before is in its own results.
    ``epochs_before`` and ``steps_before`` were trained by that one, in steps of this run's number of ranks.
    ``unfinished`` is of the epoch in which the run ended, where that is not among ``epochs``.
    ``chosen`` names the keys of ``config`` that nobody set: what stands there is what "auto" came to on these nodes.
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
    ended: Literal["epochs", "steps", "max-time", "terminated"] | None = None
    resumed_from: str | None = None
    epochs_before: int = 0
    steps_before: int = 0
    unfinished: Unfinished | None = None
    data_path: str | None = None
    communication: Communication | None = None
    damaged: list[str] = Field([])
    skipped_steps: int = 0
    chosen: list[str] = Field([])


class Kept(File):
    """One checkpoint, ``name``, of ``world`` ranks: after the run's step ``step``, in or at the end of ``epoch``.

    ``whole`` where the epoch's training was over: then any number of ranks can go on from it, else as many as there
    were. ``top1`` is that of the test, None where it was not evaluated.
    """

    name: FileName
    epoch: int
    step: int
    world: int
    whole: bool
    top1: float | None = None


class Checkpoints(File):
    """checkpoints/index.json: which there are, in the order of their steps, and the ``best`` by ``top1``.

    A directory beside it that it does not name is not whole, or about to be removed.
    """

    kept: list[Kept] = Field([])
    best: FileName | None = None


class Checkpoint(File):
    """checkpoint.json of one: where the run stands. ``epochs`` are those that were evaluated, the run's first to last.

    ``trained`` is what the training of ``epoch`` gave, once it is over; None within the epoch.
    ``precision`` and ``compression`` are what "auto" stood for, which a run that goes on keeps to.
    """

    epoch: int
    step: int
    world: int
    precision: Precision = "auto"
    compression: Compression = "none"
    trained: Trained | None
    epochs: list[Epoch]
