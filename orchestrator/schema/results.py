"""Models of a training run's results, and of the checkpoints from which another run can resume."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from orchestrator.schema.file_model import File
from orchestrator.schema.names import FileName
from orchestrator.schema.training import Compression, Engine, Precision, TrainConfig

MOST_IMAGES = 2**53  # of a step: a larger integer is not exact as a float
# At most ten years, so that the sum over all epochs of a file is a time that Python can represent.
Seconds = Annotated[float, Field(ge=0, le=3e8, allow_inf_nan=False)]


class Scores(File):
    """Means over every sample of a split, over all ranks. ``loss`` in nats, ``top1`` and ``top5`` from 0 to 1."""

    loss: float
    top1: float
    top5: float
    images: int


class Trained(File):
    """Result of an epoch's training. ``seconds`` excludes evaluation and checkpoints.

    Images per second exclude these too, and the step that traces; they are 0 if the epoch had no other step.

    ``steps`` counts from the start of the run; ``peak_memory_per_rank`` is resident memory in bytes, so far.
    ``input_seconds``, ``compute_seconds`` and ``communication_seconds`` are rank r's means per step and add up to the
    step. They are empty if the epoch had no step except the one that traces.
    ``hidden_communication`` is the share (0 to 1) of rank r's exchange of gradients that took place while the rank
    computed further gradients; empty for a single rank, and for other engines than "ours".
    ``median_step_seconds`` is rank 0's median over the same steps; several steps of one call count with their mean.
    If a run was stopped within an epoch and resumed, seconds and images per second cover both runs, the rest only the
    second.
    """

    epoch: int
    steps: int
    learning_rate: float
    train: Scores
    images_per_second: float
    images_per_second_per_rank: list[float]
    peak_memory_per_rank: list[int]
    seconds: Seconds
    input_seconds: list[Seconds] = Field([])
    compute_seconds: list[Seconds] = Field([])
    communication_seconds: list[Seconds] = Field([])
    hidden_communication: list[float] = Field([])
    median_step_seconds: Seconds | None = None


class Epoch(Trained):
    """Result of a whole epoch: training, evaluation, and the hash of the weights that every rank then had."""

    test: Scores
    test_seconds: Seconds
    weights_sha256: str

    def line(self, epochs: int) -> str:
        """Return the line that a run of ``epochs`` prints at the end of this one."""
        speed = f"  {self.images_per_second:.0f} images/s" if self.images_per_second else ""
        return (
            f"epoch {self.epoch}/{epochs}  loss {self.train.loss:.3f}  top-1 {self.train.top1:.1%}"
            f"  test loss {self.test.loss:.3f}  test top-1 {self.test.top1:.1%}{speed}  {self.seconds:.1f} s"
        )


class Unfinished(File):
    """Split of the steps of an epoch that was not evaluated. The lists hold rank r's means, as in :class:`Trained`."""

    steps: int = Field(ge=0)
    input_seconds: list[Seconds]
    compute_seconds: list[Seconds]
    communication_seconds: list[Seconds]


class StepTimes(NamedTuple):
    """Seconds of one rank's training steps by activity."""

    input: float = 0.0
    compute: float = 0.0
    communication: float = 0.0

    @property
    def without_waiting(self) -> float:
        """Seconds that the rank takes without waiting for others."""
        return self.input + self.compute


class World(File):
    """Ranks of a run. ``hosts[r]`` is the host name of rank r."""

    size: int = Field(ge=1)
    hosts: list[str]

    @model_validator(mode="after")
    def _require_a_host_for_each_rank(self) -> "World":
        if len(self.hosts) != self.size:
            raise ValueError(f"`hosts`: {len(self.hosts)} names, but `size` is {self.size}")
        return self


class Communication(File):
    """Exchange of gradients, as Horovod was actually configured. ``cycle_time`` in ms, ``fusion_threshold`` in MiB.

    Groups of gradients are as large as the threshold if one was given, else smaller than Horovod's default
    (``trainer/comm/allreduce``). With ``autotune``, these two are the initial values, and ``autotune.csv`` in the run's
    directory lists the values that were tried.
    ``route``: "allreduce" is Horovod's, of ``groups`` of gradients; "exchange" is an alltoall, sums in float32, and an
    allgather, or between two ranks an alltoall of all gradients; "hierarchical" is an exchange within nodes first;
    "none" stands for a single rank. ``bytes_per_step`` is the size of one rank's gradients.
    """

    controller: str
    transport: Literal["gloo", "mpi", "nccl"]
    cycle_time: float
    fusion_threshold: float
    autotune: bool
    route: Literal["none", "allreduce", "exchange", "hierarchical", "adasum"]
    groups: int
    bytes_per_step: int


class Results(File):
    """Content of results.json, rewritten after every epoch. ``ended`` is why training stopped, None while it runs.

    ``resumed_from`` is the run that this one continues; ``epochs`` begin with the epochs of that run.
    ``data_path`` is the directory that the data was read from: on the shared storage, or on every node's own disk.
    ``communication`` is of the engine "ours" alone.
    ``damaged`` names the samples that could not be read, and ``skipped_steps`` counts the steps that were not applied,
    both since this run began: those of the run that it continues are in that run's results.
    ``epochs_before`` and ``steps_before`` were trained by the run that this one continues, in steps of this run's
    number of ranks.
    ``unfinished`` describes the epoch in which the run ended, if that is not among ``epochs``.
    ``chosen`` names the keys of ``config`` that were not set by the user: their values are what "auto" resolved to on
    these nodes. ``engine`` is the program that trained, "ours" or another of `train.engine`.
    """

    version: Literal[1] = 1
    run: str
    config: TrainConfig
    engine: Engine = "ours"
    versions: dict[str, str]
    world: World
    parameters: int
    effective_batch_size: int = Field(ge=1, le=MOST_IMAGES)
    peak_learning_rate: float
    epochs: list[Epoch]
    ended: Literal["epochs", "steps", "until", "max-time", "terminated"] | None = None
    resumed_from: str | None = None
    epochs_before: int = 0
    steps_before: int = 0
    unfinished: Unfinished | None = None
    data_path: str | None = None
    communication: Communication | None = None
    damaged: list[str] = Field([])
    skipped_steps: int = 0
    chosen: list[str] = Field([])


class CheckpointEntry(File):
    """Checkpoint ``name`` of ``world`` ranks: after the run's step ``step``, within or at the end of ``epoch``.

    ``whole``: the epoch's training was complete, so any number of ranks can resume from it; otherwise only the same
    number of ranks can. ``top1`` is the score of the test, None if the epoch was not evaluated.
    """

    name: FileName
    epoch: int = Field(ge=1)
    step: int = Field(ge=0)
    world: int = Field(ge=1)
    whole: bool
    top1: float | None = None


class Checkpoints(File):
    """Content of checkpoints/index.json: the checkpoints in the order of their steps, and the ``best`` by ``top1``.

    A directory that the index does not list is incomplete, or about to be removed.
    """

    entries: list[CheckpointEntry] = Field([])
    best: FileName | None = None

    @property
    def newest_whole(self) -> CheckpointEntry | None:
        """Newest checkpoint of a whole epoch: another number of ranks can resume only from such a one."""
        return next((entry for entry in reversed(self.entries) if entry.whole), None)


class Checkpoint(File):
    """Content of a checkpoint's checkpoint.json: the state of the run. ``epochs`` are all evaluated epochs of the run.

    ``trained`` is the result of training ``epoch``, None within the epoch.
    ``precision``, ``compression``, ``hierarchical``, ``convolutions`` and ``xla`` are what "auto", or None, resolved
    to; a run that resumes keeps them, those of the exchange only with as many ranks.
    """

    epoch: int
    step: int
    world: int
    precision: Precision = "auto"
    compression: Compression = "none"
    hierarchical: bool | None = None
    convolutions: dict[str, str] | None = None
    xla: bool | None = None
    trained: Trained | None
    epochs: list[Epoch]
