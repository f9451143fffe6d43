"""Configuration of a training run."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from orchestrator.schema.file_model import File

Precision = Literal["auto", "float32", "bfloat16", "float16"]
Optimizer = Literal["sgd", "rmsprop", "adam"]
Compression = Literal["auto", "none", "fp16", "bf16"]
Schedule = Literal["step", "cosine", "exponential", "polynomial"]
StopOrSkip = Literal["stop", "skip"]
Engine = Literal[
    "ours",
    "horovod-tensorflow",
    "horovod-torch",
    "torch-ddp",
    "ray-torch",
    "tensorflow-multiworker",
    "tensorflow-parameter-server",
    "single",
]
GOAL = re.compile(r"top1=((?:0?\.[0-9]{1,9}|1(?:\.0{0,9})?))")
GOAL_RULE = "top1= and a share of the test samples, above 0 and at most 1, as in top1=0.75"


def goal(value: Any) -> Any:
    """Return a goal as written, ``top1=0.75``. Raises ValueError for everything else."""
    match = GOAL.fullmatch(value) if isinstance(value, str) else None
    if value is not None and (match is None or not float(match[1])):
        raise ValueError(f"{str(value)[:40]!r}: must be {GOAL_RULE}")
    return value


Goal = Annotated[str | None, BeforeValidator(goal)]


def top1_of(reached: str) -> float:
    """Return the top-1 accuracy (0 to 1) of a goal that :func:`goal` accepts."""
    return float(reached.partition("=")[2])


# MiB of the largest message of gradients if no fusion threshold is set: of our trainer, which groups gradients itself,
# and of Horovod 0.28.1 (operations.cc), which fuses those of the other engines and of scripts.
OUR_LARGEST_MESSAGE, HOROVODS_LARGEST_MESSAGE = 32, 128
MIN_SPEEDUP = 1.15  # of 16 bits; a smaller one is not worth the rounding
SAVED_MODEL = "output/model"  # the trained network, in the directory of its run
SMALL_IMAGE = 64  # pixels; some networks downsample smaller images less, and then need another amount of memory


class TrainConfig(File):
    """All settings of a training run, resolved from recipe, cluster.yaml and flags.

    ``augment`` moves small images by up to ``shift`` pixels, crops those of ``imagenet`` at random, and mirrors half of
    either if ``flip`` is true.
    ``momentum`` and ``rho`` are Adam's beta 1 and beta 2; RMSProp uses ``rho`` and ``epsilon`` too. If the norm of the
    gradients of all weights together is larger than ``clip_norm``, they are scaled to it. ``milestones`` belong to the
    schedule "step", ``decay`` and ``decay_epochs`` to "exponential", ``power`` to "polynomial".
    ``until`` is a :data:`Goal`: the run stops after the evaluation of the epoch that reaches it.
    ``test_samples`` limits evaluation to the first samples of the test split, of class folders in the order of `data
    prepare`, which mixes classes; scores are then those of these samples, also for ``until``. None evaluates all.
    ``max_time`` and ``checkpoint_every`` are in seconds. ``resume`` is the checkpoint that the run resumes from, a
    directory of another run: ``RUN/checkpoints/NAME``.
    With ``save_model``, a run that is not terminated ends by writing the network to SAVED_MODEL.
    ``precision`` "auto" selects the precision that is faster on every rank's device; results.json records the choice.
    ``convolutions`` names the implementations of each convolution's result and of the gradients of its inputs and
    weights, by its geometry (``trainer/models/convolution``); None measures them.
    With ``xla``, XLA compiles the forward and backward passes; None lets the run choose.

    A step is one update of the weights. In each step, each of ``world`` ranks computes ``backward_passes_per_step``
    gradients, of ``batch_size`` images each, one after the other, and averages them before ranks exchange anything.
    Therefore:

    - The update uses the mean over ``backward_passes_per_step`` x ``world`` batches, and the effective batch size is
      ``batch_size`` times this number. Batch normalisation sees each batch alone.
    - ``steps``, the schedule, and all other counts of steps count updates.
    - ``learning_rate`` is the rate of one batch; its peak is multiplied by the number of batches in a step (Goyal et
      al. 2017, section 2.1).
    - An epoch has only whole steps: images that do not fill a step are left out, different ones in each epoch.

    ``compression`` is the type to which gradients are rounded while they travel. If ``hierarchical``, ranks average
    gradients in 16 bits within their node first; None measures whether that is faster. Gradients are divided by
    ``gradient_predivide_factor`` before they are added, and multiplied by it afterwards, for sums larger than 16 bits
    can hold. ``adasum``: gradients of ranks are added by Maleki et al. 2020, "Scaling Distributed Training with
    Adaptive Summation" (arXiv 2006.02924), instead of averaged; the peak of the learning rate then does not grow with
    the number of ranks, except with the ranks of one node with GPUs, of which Horovod takes the mean (its
    docs/adasum_user_guide.rst finds 2 to 2.5 times the rate of one rank good on CPUs: set that with ``learning_rate``).

    ``on_bad_sample`` and ``on_nan`` say whether a run ends ("stop") or continues ("skip"). ``on_bad_sample``: a sample
    cannot be read, or its record does not match the checksum stored with it. In training, the first readable sample of
    its batch replaces it, so that all ranks make as many steps of as many images as without the damage, and the same
    ones when the run is resumed; a batch without any readable sample ends the run. In evaluation the sample is left
    out.
    ``on_nan``: in a step, a rank's loss or a gradient is not a number. No rank applies the update of that step, and its
    images are not counted; too many such steps in a row end the run.
    """

    run: str
    engine: Engine = "ours"
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
    until: Goal = None
    test_samples: int | None = None
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
    milestones: list[float] = Field([])
    decay: float = 0.94
    decay_epochs: float = 2.0
    power: float = 0.5
    seed: int
    precision: Precision
    xla: bool | None = None
    backward_passes_per_step: int = Field(1, ge=1)
    compression: Compression = "none"
    hierarchical: bool | None = None
    convolutions: dict[str, str] | None = None
    gradient_predivide_factor: float = 1.0
    adasum: bool = False
    threads: int
    restarts: int = 0
    keep_checkpoints: int = 3
    save_model: bool = False
    checkpoint_every: float | None = None
    resume: str | None = None
    on_bad_sample: StopOrSkip = "stop"
    on_nan: StopOrSkip = "stop"

    @property
    def until_top1(self) -> float | None:
        """Return the top-1 accuracy (0 to 1) that ends the run, None if none does."""
        return None if self.until is None else top1_of(self.until)
