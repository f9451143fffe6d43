"""What a training run is made of."""

from typing import Any, Literal

from pydantic import Field, model_validator

from orchestrator.schema.file import File

Precision = Literal["auto", "float32", "bfloat16", "float16"]
Optimizer = Literal["sgd", "rmsprop", "adam"]
Compression = Literal["auto", "none", "fp16", "bf16"]
Schedule = Literal["step", "cosine", "exponential", "polynomial"]
Otherwise = Literal["stop", "skip"]


class TrainConfig(File):
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
    milestones: list[float] = Field([])
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
