"""The files that cross between the control side and the worker side, each with one shape on both sides.

==================  ==================  ==============================================
file in a run's     written by          shape
directory
==================  ==================  ==============================================
``config.json``     control side        :class:`TrainConfig`
``command.json``    control side        list of strings: the launcher and its arguments
``program.json``    control side        list of strings: what every rank executes
``ranks/N.json``    rank N's shim       :class:`RankRecord`
``stop``            the supervisor      empty: rank 0 is to end with a checkpoint
``checkpoints/…``   rank 0              :class:`Checkpoints`, :class:`Checkpoint`
``status.json``     the supervisor      :class:`RunStatus`
``results.json``    rank 0              :class:`Results`
``hello.json``      rank 0              :class:`Hello`
``prepared.json``   rank 0              :class:`Prepared`
``staged.json``     rank 0              :class:`Staged`
==================  ==================  ==============================================

``config.json`` of a run that prepares or stages data is a :class:`PrepareConfig` or a :class:`StageConfig`. Beside
TFRecord shards that were prepared lies ``manifest.json``, a :class:`Manifest`, and for each a :class:`Shard`.

:class:`NodeFacts` crosses on the standard output of ``orchestrator.trainer.watching.health``.
"""

import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

State = Literal["finished", "failed", "stopped"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
Optimizer = Literal["sgd", "rmsprop", "adam"]
Compression = Literal["auto", "none", "fp16", "bf16"]
Schedule = Literal["step", "cosine", "exponential", "polynomial"]
Otherwise = Literal["stop", "skip"]
LOCAL_DATA = "/var/lib/orchestrator/data"  # on every node's own disk: what was staged there


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
    ``max_time`` and ``checkpoint_every`` in seconds. ``resume`` is the checkpoint that the run goes on from, a
    directory of another run's: ``RUN/checkpoints/NAME``.
    ``precision`` "auto" is what every rank's device gains by; results.json says what that was. With ``xla`` the passes
    forward and backward are compiled by XLA.

    A step is one update of the weights. Each of ``world`` ranks computes ``backward_passes_per_step`` gradients in it,
    of ``batch_size`` images each, one after the other, and averages them before ranks exchange anything; so

    - the update is by the mean over ``backward_passes_per_step`` x ``world`` batches, and the effective batch size is
      ``batch_size`` times these. Batch normalisation sees each batch alone.
    - ``steps``, the schedule, and what is counted anywhere else as a step, count updates.
    - ``learning_rate`` is that of one batch; its peak is so many times as high (Goyal et al. 2017, section 2.1).
    - an epoch has as many steps as there are whole ones in it: fewer images than a step takes are left out, others in
      each epoch.

    ``compression`` is what gradients are rounded to while they travel. They are divided by
    ``gradient_predivide_factor`` before they are added, and multiplied with it afterwards, for sums beyond what 16 bits
    can hold. ``adasum``: gradients of ranks are added by Maleki et al. 2020, "Scaling Distributed Training with
    Adaptive Summation" (arXiv 2006.02924), and not averaged; the peak of the learning rate then leaves the number of
    ranks out, but for those on a node with GPUs, of which Horovod takes the mean (its docs/adasum_user_guide.rst finds
    2 to 2.5 times the rate of one rank good on CPUs: that is for ``learning_rate`` to say).

    What "stop" ends a run for, "skip" goes on after. ``on_damage``: a sample that cannot be read, or whose record has
    another checksum than is written beside it. In training, the first sample of its batch that can be read takes its
    place, so that all ranks make as many steps of as many images as without the damage, and the same ones where the
    run is resumed; a batch without any such sample ends the run. In evaluation it is left out.
    ``on_nan``: a step in which a rank's loss, or a gradient, is not a number. No rank applies the update of that step,
    and nobody counts its images; too many of them in a row end the run.
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
    xla: bool = False
    backward_passes_per_step: int = 1
    compression: Compression = "none"
    gradient_predivide_factor: float = 1.0
    adasum: bool = False
    threads: int
    restarts: int = 0
    keep_checkpoints: int = 3
    checkpoint_every: float | None = None
    resume: str | None = None
    on_damage: Otherwise = "stop"
    on_nan: Otherwise = "stop"

    @model_validator(mode="before")
    @classmethod
    def _older(cls, values: Any) -> Any:
        """Files of versions that knew no compression but fp16."""
        older = isinstance(values, dict) and values.get("fp16_allreduce")
        return {"compression": "fp16", **values} if older else values


class Scores(_File):
    """Means over every sample of a split, all ranks together. ``loss`` in nats, ``top1`` and ``top5`` from 0 to 1."""

    loss: float
    top1: float
    top5: float
    images: int


class Trained(_File):
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
    input_seconds: list[float] = []
    compute_seconds: list[float] = []
    communication_seconds: list[float] = []


class Epoch(Trained):
    """What a whole epoch gave: its training, its evaluation, and the weights that every rank then had."""

    test: Scores
    test_seconds: float
    weights_sha256: str


class World(_File):
    """Who trained: ``hosts[r]`` is the host name of rank r."""

    size: int
    hosts: list[str]


class Communication(_File):
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


class Results(_File):
    """results.json, rewritten after every epoch; ``ended`` says why training stopped, None while it goes on.

    ``resumed_from`` is the run that this one continues; ``epochs`` begin with those of that one.
    ``data_path`` is the directory that the data was read from: on the shared storage, or on every node's own disk.
    Without ``communication`` it is a file of an older version.
    ``damaged`` names the samples that could not be read, and ``skipped_steps`` counts the steps that were not applied,
    both since this run began: what a run that is continued met before is in its own results.
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
    data_path: str | None = None
    communication: Communication | None = None
    damaged: list[str] = []
    skipped_steps: int = 0


class Kept(_File):
    """One checkpoint, ``name``, of ``world`` ranks: after the run's step ``step``, in or at the end of ``epoch``.

    ``whole`` where the epoch's training was over: then any number of ranks can go on from it, else as many as there
    were. ``top1`` is that of the test, None where it was not evaluated.
    """

    name: str
    epoch: int
    step: int
    world: int
    whole: bool
    top1: float | None = None


class Checkpoints(_File):
    """checkpoints/index.json: which there are, in the order of their steps, and the ``best`` by ``top1``.

    A directory beside it that it does not name is not whole, or about to be removed.
    """

    kept: list[Kept] = []
    best: str | None = None


class Checkpoint(_File):
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
    """What a node says of itself (``orchestrator.trainer.watching.health``). Sizes in bytes."""

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
